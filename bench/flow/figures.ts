/** What runs come to. All times in microseconds by the monotonic clock. */

import { percentile } from "../percentile.ts";
import type { Run } from "./runs.ts";

/** Half of the values are not above it. */
export const median = (values: readonly number[]): number => percentile(values, 50);

/** The times at which the number of running handlers changes; an end comes before a start at the same time. */
function steps(runs: readonly Run[]): readonly (readonly [number, 1 | -1])[] {
  return runs
    .flatMap(({ startUs, endUs }) => [[startUs, 1] as const, [endUs, -1] as const])
    .toSorted(([a, up], [b, down]) => a - b || up - down);
}

/** Most that ran at a time. */
export function mostAtOnce(runs: readonly Run[]): number {
  let running = 0;
  let most = 0;
  for (const [, step] of steps(runs)) {
    running += step;
    most = Math.max(most, running);
  }
  return most;
}

/** Starts that found the limit reached. */
export function startsAbove(runs: readonly Run[], limit: number): number {
  let running = 0;
  let above = 0;
  for (const [, step] of steps(runs)) {
    running += step;
    if (step === 1 && running > limit) above += 1;
  }
  return above;
}

/** Mean number of running handlers between two times. */
export function meanRunning(runs: readonly Run[], fromUs: number, toUs: number): number {
  let sum = 0;
  for (const { startUs, endUs } of runs) {
    sum += Math.max(0, Math.min(endUs, toUs) - Math.max(startUs, fromUs));
  }
  return sum / (toUs - fromUs);
}

/** Runs by what `nameOf` says. */
export function grouped(
  runs: readonly Run[],
  nameOf: (run: Run) => string,
): ReadonlyMap<string, readonly Run[]> {
  return Map.groupBy(runs, nameOf);
}

/**
 * By how many starts the fullest window exceeds `perUs` times its length, or both in another unit of time: what a
 * bucket of this burst allows is no more than the burst.
 */
export function fullestWindow(startsUs: readonly number[], perUs: number): number {
  let lowest = Number.POSITIVE_INFINITY;
  let most = 0;
  startsUs.forEach((atUs, index) => {
    const level = index - perUs * atUs;
    lowest = Math.min(lowest, level);
    most = Math.max(most, level - lowest + 1);
  });
  return most;
}
