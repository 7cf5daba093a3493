/** How much of what its limits allow a queue uses while jobs wait. */

import type { QueueSettings } from "@waybill/core";
import { setTimeout as delay } from "node:timers/promises";
import { percentile } from "../percentile.ts";
import { grouped, meanRunning, mostAtOnce } from "./figures.ts";
import { type Item, Line } from "./line.ts";
import { atLeast, bounded, type Figure, type Measurement, told } from "./measurement.ts";
import type { Stage } from "./stage.ts";

const limit = 50;
const durationsMs = [10, 50, 100, 500] as const;
const warmUpUs = 2_000_000;
const keyCount = 1_000;
const perKey = 2;

/** Running handlers as part of a global limit, for jobs of one duration. */
async function ofLimit(
  stage: Stage,
  what: string,
  settings: QueueSettings,
  ms: number,
): Promise<readonly Figure[]> {
  const seconds = stage.quick ? 5 : 10;
  const jobs = Math.ceil((limit * seconds * 1_000) / ms) + limit * 2;
  await using line = await Line.start(stage, {
    settings: { concurrency: limit, ...settings },
    workers: 2,
    concurrency: limit,
    logsAll: true,
  });
  const items = Array.from({ length: jobs }, (_, n): Item => ({
    payload: { n, ms },
    options: { concurrencyKey: `tenant${n % 100}` },
  }));
  await line.enqueue(items);
  await line.ended(jobs);
  const runs = await line.runs();
  const starts = runs.map(({ startUs }) => startUs);
  // As long as more jobs wait than fit into the limit, there is enough for every worker.
  const toUs = starts[jobs - 2 * limit] ?? 0;
  const fromUs = (starts[0] ?? 0) + warmUpUs;
  const share = meanRunning(runs, fromUs, toUs) / limit;
  const name = `${what} ${ms} ms`;
  stage.screen.event(`${name}: ${(share * 100).toFixed(1)} % of ${limit}`);
  return [
    atLeast(name, share, 0.95, ""),
    bounded(`${name} most at once`, mostAtOnce(runs), limit, ""),
  ];
}

/** Slots and handlers in use of many keys, each with a limit of its own. */
async function ofKeys(stage: Stage): Promise<readonly Figure[]> {
  const perKeyJobs = stage.quick ? 8 : 14;
  const jobs = keyCount * perKeyJobs;
  await using line = await Line.start(stage, {
    settings: { keys: { concurrency: perKey } },
    workers: 3,
    concurrency: 1_000,
    logsAll: true,
  });
  // Not all at the same time, or they would go on ending together.
  const items = Array.from({ length: jobs }, (_, n): Item => ({
    payload: { n, ms: 1_500 + ((n * 7_919) % 1_000) },
    options: { concurrencyKey: `tenant${n % keyCount}` },
  }));
  await line.enqueue(items);
  const slots: number[] = [];
  const done = line.ended(jobs);
  const sampling = new AbortController();
  const samples = (async () => {
    while (!sampling.signal.aborted) {
      const { slots: count, backlog } = await line.leftovers();
      // As long as all keys have jobs that wait.
      if (backlog > jobs * 0.3) slots.push(count);
      await delay(200);
    }
  })();
  await done.finally(() => sampling.abort());
  await samples;
  const runs = await line.runs();
  const byKey = [...grouped(runs, ({ key }) => key).values()];
  const lastStarts = byKey.map((some) => some.at(-1)?.startUs ?? 0);
  const fromUs = (runs[0]?.startUs ?? 0) + warmUpUs;
  const toUs = Math.min(...lastStarts);
  const allowed = keyCount * perKey;
  const handlers = meanRunning(runs, fromUs, toUs) / allowed;
  // The first second or two fill the slots.
  const settled = slots.slice(10);
  const used = settled.reduce((sum, count) => sum + count, 0) / settled.length / allowed;
  stage.screen.event(
    `${keyCount} keys: slots ${(used * 100).toFixed(1)} %, handlers ${(handlers * 100).toFixed(1)} %`,
  );
  return [
    atLeast(`${keyCount} keys slots`, used, 0.95, ""),
    told(`${keyCount} keys handlers`, handlers, ""),
    told(`${keyCount} keys least slots`, percentile(settled, 1) / allowed, ""),
    bounded(
      `${keyCount} keys most at once`,
      Math.max(...byKey.map((some) => mostAtOnce(some))),
      perKey,
      "",
    ),
  ];
}

/** See the head of the file. */
export const utilisation: Measurement = {
  name: "utilisation",
  title: `running handlers of a limit of ${limit}, and slots of ${keyCount} keys with ${perKey} each`,
  async measure(stage) {
    const figures: Figure[] = [];
    for (const ms of durationsMs) {
      figures.push(...(await ofLimit(stage, "pass-through", {}, ms)));
      figures.push(...(await ofLimit(stage, "governed", { keys: {} }, ms)));
    }
    figures.push(...(await ofKeys(stage)));
    return { figures };
  },
};
