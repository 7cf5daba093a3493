/** Whether a limit is ever exceeded, also while relays and workers die and a leading relay freezes. */

import type { QueueSettings } from "@waybill/core";
import { booksOf, doubled } from "./books.ts";
import { randomFrom } from "../../scripts/stage/chance.ts";
import { wreak } from "./chaos.ts";
import { grouped, mostAtOnce, startsAbove } from "./figures.ts";
import { type Item, Line } from "./line.ts";
import { type Figure, type Measurement, never, told } from "./measurement.ts";
import { produce } from "./producer.ts";
import type { Run } from "./runs.ts";
import type { Stage } from "./stage.ts";

const limit = 30;
const perKey = 4;
const typeLimits = { narrow: 6, wide: 14 } as const;
const types = ["narrow", "wide", "free"] as const;
const keyCount = 12;
const seed = 20_240_607;

interface Kind {
  readonly name: string;
  readonly settings: QueueSettings;
  readonly kills: number;
}

const governed: QueueSettings = {
  concurrency: limit,
  keys: { concurrency: perKey },
  types: {
    "flow.narrow": { concurrency: typeLimits.narrow },
    "flow.wide": { concurrency: typeLimits.wide },
  },
};

/** Jobs of 5 to 80 ms, of which one in twenty fails at first. */
function itemMaker(): (n: number) => Item {
  const random = randomFrom(seed);
  return (n) => ({
    type: types[Math.floor(random() * types.length)] ?? "free",
    payload: { n, ms: Math.round(5 + random() * 75), failures: random() < 0.05 ? 1 : 0 },
    options: { concurrencyKey: `tenant${Math.floor(random() * keyCount)}` },
  });
}

const above = (runs: Iterable<readonly Run[]>, most: number): number =>
  [...runs].reduce((sum, some) => sum + startsAbove(some, most), 0);

function limitFigures(name: string, runs: readonly Run[]): readonly Figure[] {
  const byKey = grouped(runs, ({ key }) => key);
  const byType = grouped(runs, ({ type }) => type);
  return [
    told(`${name} most at once`, mostAtOnce(runs), ` of ${limit}`),
    told(
      `${name} of a key`,
      Math.max(...[...byKey.values()].map((some) => mostAtOnce(some))),
      ` of ${perKey}`,
    ),
    ...(["narrow", "wide"] as const).flatMap((type) => [
      told(`${name} of ${type}`, mostAtOnce(byType.get(type) ?? []), ` of ${typeLimits[type]}`),
      never(
        `${name} above the limit of ${type}`,
        above([byType.get(type) ?? []], typeLimits[type]),
      ),
    ]),
    never(`${name} above the limit of a key`, above(byKey.values(), perKey)),
  ];
}

async function under(stage: Stage, { name, settings, kills }: Kind): Promise<readonly Figure[]> {
  await using line = await Line.start(stage, {
    settings,
    types,
    relays: 2,
    workers: 3,
    concurrency: limit,
    logsAll: true,
  });
  let isOver = false;
  const producing = produce(
    stage,
    line,
    { itemOf: itemMaker(), batch: 100, unfinished: 1_000, rollbackEvery: 10 },
    () => isOver,
  );
  producing.catch(() => undefined);
  const count = await wreak(stage, line, { kills, pauseMs: 700, freezeMs: 4_000, seed });
  isOver = true;
  const produced = await producing;
  await line.ended(produced.committed);
  const runs = await line.runs();
  stage.screen.event(
    `${name}: ${produced.committed} jobs, ${runs.length} runs, ${count.relays} relays and ${count.workers} workers killed, ${count.freezes} relay frozen; seed ${seed}`,
  );
  return [
    told(`${name} jobs`, produced.committed, ""),
    told(`${name} kills`, count.relays + count.workers, ""),
    told(`${name} freezes`, count.freezes, ""),
    never(`${name} above the limit`, startsAbove(runs, limit)),
    ...(settings.keys === undefined
      ? [told(`${name} most at once`, mostAtOnce(runs), ` of ${limit}`)]
      : limitFigures(name, runs)),
    never(`${name} done twice`, doubled(runs, line.killsUs)),
    ...(await booksOf(line, name, produced, runs)),
  ];
}

/** See the head of the file. */
export const violations: Measurement = {
  name: "violations",
  title: "limits of a queue, of keys and of types while relays and workers are killed",
  async measure(stage) {
    const [many, some] = stage.quick ? [12, 6] : [44, 24];
    return {
      figures: [
        ...(await under(stage, { name: "governed", settings: governed, kills: many })),
        ...(await under(stage, {
          name: "limit alone",
          settings: { concurrency: limit },
          kills: some,
        })),
      ],
    };
  },
};
