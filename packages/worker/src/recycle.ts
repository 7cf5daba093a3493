import { z } from "zod";

/**
 * When a worker ends by itself, as after a stop signal, so that its supervisor starts a fresh process.
 * What is left out is no reason to end.
 */
export interface RecycleOptions {
  /** Attempts that it has finished; 1 to 10^9. */
  readonly maxJobs?: number | undefined;
  /** Its age in milliseconds, 1 minute to 30 days; a tenth of it is by chance, so that a fleet does not end at once. */
  readonly maxAgeMs?: number | undefined;
  /** Memory of its process (resident set size) in bytes; 64 MiB to 1 TiB. */
  readonly maxRssBytes?: number | undefined;
  /** Handlers that were left behind and still go on; 1 to 1000. */
  readonly maxLeftBehind?: number | undefined;
}

/** Bounds of {@link RecycleOptions}. */
export const recycleOptions: z.ZodType<RecycleOptions, RecycleOptions> = z.strictObject({
  maxJobs: z.int().min(1).max(1_000_000_000).optional(),
  maxAgeMs: z
    .int()
    .min(60_000)
    .max(30 * 86_400_000)
    .optional(),
  maxRssBytes: z
    .int()
    .min(64 * 1_048_576)
    .max(1_048_576 * 1_048_576)
    .optional(),
  maxLeftBehind: z.int().min(1).max(1_000).optional(),
});

/** What a worker has come to. */
export interface WorkerWear {
  readonly finishedJobs: number;
  readonly ageMs: number;
  readonly rssBytes: number;
  readonly leftBehind: number;
}

/** Milliseconds between two looks. */
const lookMs = 1_000;

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

/**
 * Looks now and then whether the worker is to end by itself.
 *
 * @param onWorn called with the reason, at every look from then on
 */
export function watchWear(
  options: RecycleOptions,
  random: () => number,
  wear: () => Pick<WorkerWear, "finishedJobs" | "leftBehind">,
  onWorn: (reason: string) => void,
): NodeJS.Timeout {
  const startedAt = performance.now();
  const ageLimitMs = ageLimitOf(options, random);
  return setInterval(() => {
    const reason = recycleReason(options, ageLimitMs, {
      ...wear(),
      ageMs: performance.now() - startedAt,
      rssBytes: process.memoryUsage.rss(),
    });
    if (reason !== undefined) onWorn(reason);
  }, lookMs).unref();
}
