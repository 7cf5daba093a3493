/**
 * How many schedules a model test runs, and how one that failed is run again. The seed, the path to
 * the shrunk counterexample and the counterexample itself are printed by fast-check.
 *
 * - `WAYBILL_MODEL_RUNS=100`: a hundred times as many schedules as `npm test` runs
 * - `WAYBILL_SEED=42`: that seed instead of one by chance
 * - `WAYBILL_MODEL_PATH=17:2:0`: only what lies at that path of the seed
 */

import type * as fc from "fast-check";

const text = (name: string): string | undefined => process.env[name] || undefined;

/** Parameters of fast-check for a property that `npm test` runs so many times. */
export function schedules<T>(runs: number): fc.Parameters<T> {
  const times = Number(text("WAYBILL_MODEL_RUNS") ?? "1");
  const seed = text("WAYBILL_SEED");
  const path = text("WAYBILL_MODEL_PATH");
  return {
    numRuns: Math.max(1, Math.round(runs * times)),
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path, endOnFailure: true }),
  };
}

/** Milliseconds that vitest gives such a test: models wait for nothing, so a long run is a big one. */
export const patienceMs = 600_000 * Math.max(1, Number(text("WAYBILL_MODEL_RUNS") ?? "1"));
