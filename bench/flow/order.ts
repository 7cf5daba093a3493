/** Whether jobs of one ordering key ever overtake each other or run together. */

import { randomFrom } from "../../scripts/stage/chance.ts";
import { booksOf } from "./books.ts";
import { wreak } from "./chaos.ts";
import { grouped } from "./figures.ts";
import { type Item, Line } from "./line.ts";
import { type Measurement, never, told } from "./measurement.ts";
import { produce } from "./producer.ts";
import type { Run } from "./runs.ts";

const keyCount = 200;
const seed = 7;

/** Starts of a job while an earlier one of its key had not succeeded, and starts while another run of the key went on. */
function faultsOf(runs: readonly Run[]): {
  readonly inversions: number;
  readonly overlaps: number;
} {
  let inversions = 0;
  let overlaps = 0;
  const successUs = new Map<number, number>();
  for (const { n, endUs, outcome } of runs) {
    if (outcome === "succeeded") successUs.set(n, Math.min(endUs, successUs.get(n) ?? Infinity));
  }
  const numbers = [...successUs.keys()].toSorted((a, b) => a - b);
  const before = new Map(numbers.map((n, index) => [n, numbers[index - 1]]));
  let endUs = 0;
  let highest = -1;
  for (const run of runs) {
    if (run.startUs < endUs) overlaps += 1;
    endUs = Math.max(endUs, run.endUs);
    const previous = before.get(run.n);
    const isEarly = previous !== undefined && (successUs.get(previous) ?? Infinity) > run.startUs;
    if (isEarly || run.n < highest) inversions += 1;
    highest = Math.max(highest, run.n);
  }
  return { inversions, overlaps };
}

/** See the head of the file. */
export const order: Measurement = {
  name: "order",
  title: `${keyCount} ordering keys with 100 jobs each while jobs fail and processes are killed`,
  async measure(stage) {
    const jobs = keyCount * (stage.quick ? 30 : 100);
    const random = randomFrom(seed);
    await using line = await Line.start(stage, {
      settings: { order: {} },
      relays: 2,
      workers: 3,
      concurrency: 30,
      logsAll: true,
    });
    const itemOf = (n: number): Item => ({
      payload: { n, ms: Math.round(random() * 10), failures: random() < 0.05 ? 1 : 0 },
      // The log has the concurrency key, of which there is no limit here.
      options: { orderingKey: `order${n % keyCount}`, concurrencyKey: `order${n % keyCount}` },
    });
    const producing = produce(
      stage,
      line,
      { itemOf, batch: 100, unfinished: 2_000, rollbackEvery: 10, jobs },
      () => false,
    );
    producing.catch(() => undefined);
    const chaos = { kills: stage.quick ? 8 : 24, pauseMs: 600, freezeMs: 0, seed };
    const count = await wreak(stage, line, chaos);
    const produced = await producing;
    await line.ended(produced.committed);
    const runs = await line.runs();
    const faults = [...grouped(runs, ({ key }) => key).values()].map(faultsOf);
    const sum = (name: "inversions" | "overlaps"): number =>
      faults.reduce((all, fault) => all + fault[name], 0);
    return {
      figures: [
        told("jobs", produced.committed, ""),
        told("runs", runs.length, ""),
        told("kills", count.relays + count.workers, ""),
        never("inversions", sum("inversions")),
        never("overlaps", sum("overlaps")),
        ...(await booksOf(line, "order", produced, runs)),
      ],
    };
  },
};
