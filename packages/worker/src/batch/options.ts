import { parseOptions } from "@waybill/core";
import { z } from "zod";

/** Options of `handleBatch`. */
export interface BatchHandlerOptions {
  /**
   * Jobs of a batch at most; 1 to 1000. A batch never holds more than the queue's concurrency.
   * @default 100
   */
  readonly maxJobs?: number | undefined;
  /**
   * How long the first job of a batch waits for others at most, in milliseconds; 0 to 60,000. 0: only
   * jobs that came together go together.
   * @default 50
   */
  readonly maxWaitMs?: number | undefined;
}

/** {@link BatchHandlerOptions} with the defaults filled in. */
export interface ResolvedBatchOptions {
  readonly maxJobs: number;
  readonly maxWaitMs: number;
}

const batchOptions: z.ZodType<ResolvedBatchOptions, BatchHandlerOptions> = z.strictObject({
  maxJobs: z.int().min(1).max(1_000).default(100),
  maxWaitMs: z.int().min(0).max(60_000).default(50),
});

/**
 * Fills in the defaults.
 *
 * @throws ConfigError that names every problem at once
 */
export function resolveBatchOptions(
  jobName: string,
  options: BatchHandlerOptions,
): ResolvedBatchOptions {
  return parseOptions(`worker.handleBatch("${jobName}")`, batchOptions, options);
}
