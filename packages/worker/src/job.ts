import type {
  CheckpointInput,
  CheckpointOf,
  EventDefinition,
  JobDefinition,
  OutputOf,
  PayloadOutput,
  RetryPolicy,
} from "@waybill/core";
import type { Progress } from "./progress.ts";

/** What a handler knows about the job or event it runs. */
export interface Context<Name extends string, Payload> {
  /** Job id, the same in every attempt: an idempotency key for calls to other systems. */
  readonly id: string;
  readonly name: Name;
  readonly payload: Payload;
  /** Number of this attempt; 1 is the first. */
  readonly attempt: number;
  /**
   * Aborts when the attempt should stop: with JobCancelledError when somebody cancels the job, with
   * JobTimeoutError after the definition's `timeoutMs`, with ShutdownError at the end of the grace,
   * with LeaseLostError when others may run the job.
   */
  readonly signal: AbortSignal;
  readonly correlationId: string | undefined;
  /** Whose job it is; see `concurrencyKey` of enqueue. */
  readonly concurrencyKey: string | undefined;
  /** Headers that the producer gave; never Waybill's or the broker's. */
  readonly headers: Readonly<Record<string, string>>;
  readonly enqueuedAt: Date;
  /** Higher is more urgent. */
  readonly priority: number;
  /**
   * Tells how far the job is. Returns at once: the report is written apart from the job's effects,
   * at most every second, or five times a second where a stage or a hundredth of the total is new,
   * and at the end.
   * Never fails the job where it cannot be written.
   *
   * @throws PayloadError for a report that is none; see {@link Progress}
   */
  reportProgress(progress: Progress): void;
}

/** A job inside its transaction; see `handleInTransaction`. */
export type TransactionalJob<J extends JobDefinition> = Context<J["name"], PayloadOutput<J>>;

/** A job of a plain handler; see `handle`. */
export interface Job<J extends JobDefinition, Tx> extends TransactionalJob<J> {
  /** What an earlier attempt saved last; undefined where there is none. */
  readonly checkpoint: CheckpointOf<J> | undefined;
  /**
   * Saves how far the job is in `tx`, the transaction of the effects that the checkpoint stands for:
   * both are committed, or neither is. The next attempt gets the newest one. At most 64 KiB of JSON.
   * Call it at the end of the transaction, and in one transaction at a time: from there until the
   * commit, whoever cancels the job waits.
   *
   * @throws PayloadError for a checkpoint that does not fit its schema or the limit, NotInTransactionError,
   *   LeaseLostError if another attempt owns the job now; each time nothing is written
   */
  saveCheckpoint(tx: Tx, checkpoint: CheckpointInput<J>): Promise<void>;
  /**
   * Runs `work` in a transaction of the application's data layer that commits only while this
   * attempt owns the job. May be called any number of times.
   *
   * @throws LeaseLostError after a rollback, if another attempt owns the job now
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** An event as a subscription receives it; see `on`. */
export type ReceivedEvent<E extends EventDefinition> = Context<E["name"], OutputOf<E["payload"]>>;

/** Options of `on`. */
export interface SubscriptionOptions {
  /**
   * Name of the subscription: its queue, its memory of what was processed, and its dead-letter queue.
   * Every service that wants the event has one of its own; events may share one.
   */
  readonly subscription: string;
  /** Attempts and delays of this subscription alone. */
  readonly retry?: RetryPolicy | undefined;
  /**
   * Time an attempt may take, in milliseconds; 0 for no limit.
   * @default 0
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Time after which the slot is given up even if the handler goes on, in milliseconds; larger than
   * `timeoutMs`, and not without it. 0: `timeoutMs` and the worker's `abandonMs`.
   * @default 0
   */
  readonly hardTimeoutMs?: number | undefined;
}
