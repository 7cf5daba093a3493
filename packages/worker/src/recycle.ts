import type { RecycleOptions } from "./options.ts";

/** What a worker has come to. */
export interface WorkerWear {
  readonly finishedJobs: number;
  readonly ageMs: number;
  readonly rssBytes: number;
  readonly leftBehind: number;
}

/** Milliseconds between two looks. */
export const recycleLookMs = 1_000;

/** A worker's own greatest age: up to a tenth less than asked for. */
export function ageLimitOf(options: RecycleOptions, random: () => number): number {
  return (options.maxAgeMs ?? Number.POSITIVE_INFINITY) * (1 - random() / 10);
}

/** Why a worker is to end by itself; undefined: it is not. */
export function recycleReason(
  { maxJobs, maxRssBytes, maxLeftBehind }: RecycleOptions,
  ageLimitMs: number,
  wear: WorkerWear,
): string | undefined {
  const { finishedJobs, ageMs, rssBytes, leftBehind } = wear;
  if (maxJobs !== undefined && finishedJobs >= maxJobs)
    return `it has finished ${finishedJobs} jobs`;
  if (ageMs >= ageLimitMs) return `it is ${Math.round(ageMs / 1_000)} s old`;
  if (maxRssBytes !== undefined && rssBytes >= maxRssBytes) {
    return `its process takes ${Math.round(rssBytes / 1_048_576)} MiB`;
  }
  if (maxLeftBehind !== undefined && leftBehind >= maxLeftBehind) {
    return `${leftBehind} handlers were left behind and go on`;
  }
  return undefined;
}
