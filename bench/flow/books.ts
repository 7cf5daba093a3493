import { setTimeout as delay } from "node:timers/promises";
import type { Line } from "./line.ts";
import { type Figure, never } from "./measurement.ts";
import type { Produced } from "./producer.ts";
import type { Run } from "./runs.ts";

/** What must be true at the end, whatever was done to the processes. */
export async function booksOf(
  line: Line,
  name: string,
  produced: Produced,
  runs: readonly Run[],
): Promise<readonly Figure[]> {
  const { committed } = produced;
  const done = await line.count("succeeded");
  // Slots are given back when their jobs' ends are committed, those of killed relays' jobs a little later.
  const untilMs = performance.now() + 15_000;
  let left = await line.leftovers();
  while (left.slots + left.backlog > 0 && performance.now() < untilMs) {
    await delay(100);
    left = await line.leftovers();
  }
  const successes = new Map<number, number>();
  for (const { n, outcome } of runs) {
    if (outcome === "succeeded") successes.set(n, (successes.get(n) ?? 0) + 1);
  }
  const ran = [...successes.keys()].filter((n) => n >= 0).length;
  return [
    never(`${name} lost`, committed - Math.min(done, ran)),
    never(`${name} of transactions rolled back`, [...successes.keys()].filter((n) => n < 0).length),
    never(`${name} slots left`, left.slots),
    never(`${name} backlog left`, left.backlog),
  ];
}

/**
 * Jobs whose handlers succeeded again although their first success was not in a process that was killed
 * soon after it, before it could be written down.
 *
 * @param killsUs when processes were killed
 */
export function doubled(runs: readonly Run[], killsUs: readonly number[]): number {
  const first = new Map<number, Run>();
  let count = 0;
  for (const run of runs) {
    if (run.outcome !== "succeeded") continue;
    const before = first.get(run.n);
    if (before === undefined) {
      first.set(run.n, run);
      continue;
    }
    const excused = killsUs.some((at) => at >= before.endUs && at - before.endUs < 2_000_000);
    if (!excused) count += 1;
  }
  return count;
}
