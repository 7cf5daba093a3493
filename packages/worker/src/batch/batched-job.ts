import type { JobDefinition, ResultOf } from "@waybill/core";
import type { CurrentJob } from "../current-job.ts";
import type { Job } from "../job.ts";
import type { PlainContext } from "../registry.ts";

/**
 * A job of a batch; see `handleBatch`. It is a job of its own in everything: attempt, signal,
 * checkpoint, transactions, outcome.
 */
export interface BatchedJob<J extends JobDefinition, Tx> extends Job<J, Tx> {
  /**
   * States that the job has succeeded. It is recorded when the handler has ended, or at once for a
   * job that was told to stop. The first statement about a job counts, whatever the handler throws
   * later. A result that does not fit its schema fails this job, as `validation`.
   */
  succeed(result: ResultOf<J>): void;
  /**
   * States that this attempt of the job has failed, as if a handler of its own had thrown `error`:
   * its class, the retry policy, NonRetryableError and RetryAfterError count as usual. Otherwise
   * like {@link succeed}.
   */
  fail(error: unknown): void;
}

/** A {@link BatchedJob} whose types are known to the handler alone. */
export interface BatchContext<Tx> extends PlainContext<Tx> {
  succeed(result: unknown): void;
  fail(error: unknown): void;
}

/** A batch handler whose types are known to itself alone. */
export type BatchHandler<Tx> = (
  jobs: readonly BatchContext<Tx>[],
  signal: AbortSignal,
) => Promise<unknown>;

/** An attempt that is ready to be run in a batch. */
export interface BatchMember<Tx> {
  readonly context: PlainContext<Tx>;
  readonly current: CurrentJob;
  /** The job may be what kills workers: nobody is to share its batch. */
  readonly isSuspect: boolean;
  /** Asks the attempt to stop. */
  readonly stop: (reason: unknown) => void;
  /** The batch starts: the attempt's time runs from here. */
  readonly onStart: () => void;
}
