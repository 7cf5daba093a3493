import type { CheckpointOf, JobDefinition, ResultOf } from "@waybill/core";
import type { TransactionalJob } from "../job.ts";
import type { Progress } from "../progress.ts";

/**
 * A job as the handler in a thread receives it. All of it is a copy: what the handler changes is
 * seen by nobody.
 *
 * There is no `transaction`, since database connections cannot leave their thread. The module may
 * open connections of its own; what it does there may happen again after a crash, so let it use the
 * job's id as an idempotency key.
 */
export interface IsolatedJob<J extends JobDefinition> extends TransactionalJob<J> {
  /**
   * Aborts when the attempt should stop, with an error of the same code as in any other handler. A
   * loop that never awaits should read `job.signal.aborted` in each turn (not from a variable): each
   * reading of `job.signal` looks for the news.
   */
  readonly signal: AbortSignal;
  /** Last checkpoint of earlier attempts. */
  readonly checkpoint: CheckpointOf<J> | undefined;
  /**
   * Tells how far the job is. Returns at once, and may be called in each turn of a loop.
   *
   * @throws PayloadError for what is not JSON; a report that is none fails the job at its end
   */
  reportProgress(progress: Progress): void;
}

/** The function that a module for a thread exports. */
export type IsolatedRun<J extends JobDefinition> = (
  job: IsolatedJob<J>,
) => Promise<ResultOf<J>> | ResultOf<J>;

/** What {@link IsolatedHandler.start} needs to know about a job. */
export type IsolatedInput = Omit<IsolatedJob<JobDefinition>, "payload" | "checkpoint"> & {
  readonly payload: unknown;
  readonly checkpoint: unknown;
};
