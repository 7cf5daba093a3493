/**
 * Runs claimed jobs and settles them: the outcome first, the ack after it. A delivery is acked
 * only when the database says so; where the job is not this attempt's any more, it goes back to the
 * queue, whose next claim decides.
 */

import { channel } from "node:diagnostics_channel";
import {
  decideFailure,
  type Failure,
  failureOf,
  JobTimeoutError,
  LeaseLostError,
  type Logger,
  ShutdownError,
  statedFailure,
} from "@waybill/core";
import type { ClaimedRow, FailureRecord } from "@waybill/postgres";
import { Attempt, type AttemptEnvironment, type AttemptOutcome } from "./attempt.ts";
import type { Incoming } from "./incoming.ts";
import type { Registration } from "./registry.ts";
import type { Settled, Settlements } from "./settlements.ts";

/** What is published on the diagnostics channel `waybill:job:attempt` after each attempt. */
export interface AttemptEvent {
  readonly jobId: string;
  readonly jobName: string;
  readonly queue: string;
  readonly attempt: number;
  /** What the attempt made of the job. */
  readonly state: Settled;
  readonly failureClass: string | undefined;
  /** Time of the handler, in milliseconds. */
  readonly durationMs: number;
}

const attemptChannel = channel("waybill:job:attempt");

/** A job that this worker owns, ready to run. */
export interface ClaimedJob<Tx> {
  readonly incoming: Incoming;
  readonly row: ClaimedRow;
  readonly registration: Registration<Tx>;
}

/** See the head of the file. */
export class JobRunner<Tx> {
  readonly #environment: AttemptEnvironment<Tx>;
  readonly #settlements: Settlements;
  readonly #logger: Logger;
  readonly #attempts = new Set<Attempt<Tx>>();

  constructor(environment: AttemptEnvironment<Tx>, settlements: Settlements) {
    this.#environment = environment;
    this.#settlements = settlements;
    this.#logger = environment.logger;
  }

  /** Handlers running now. */
  get running(): number {
    return this.#attempts.size;
  }

  /** Asks all handlers to stop. */
  abortAll(reasonOf: (jobId: string) => Error): void {
    for (const attempt of this.#attempts) attempt.abort(reasonOf(attempt.jobId));
  }

  /** Waits for no handler any more. */
  abandonAll(): void {
    for (const attempt of this.#attempts) attempt.abandon();
  }

  /**
   * Runs a job to its settled end. Never rejects.
   *
   * @param onHandlerEnd called when the handler has ended, before the outcome is recorded
   */
  async run(job: ClaimedJob<Tx>, onHandlerEnd: () => void): Promise<void> {
    const { incoming, row, registration } = job;
    const attempt = new Attempt(this.#environment, {
      envelope: incoming.envelope,
      owned: row,
      attempt: row.attempt,
      registration,
    });
    this.#attempts.add(attempt);
    const startedAt = performance.now();
    const outcome = await attempt.run();
    const durationMs = performance.now() - startedAt;
    this.#attempts.delete(attempt);
    onHandlerEnd();
    try {
      await this.#settle(job, outcome, attempt.signal, durationMs);
    } catch (err) {
      this.#unsettled(job.incoming, err);
    }
  }

  /** Ends a job whose workers died too often, without running it again. Never rejects. */
  async bury({ incoming, row, registration }: ClaimedJob<Tx>): Promise<void> {
    const failure = statedFailure(
      "crashed",
      `The worker's process died ${row.crashes} times while it ran this job.`,
    );
    try {
      const state = await this.#settlements.fail(recordOf(incoming, row, failure, undefined));
      this.#report({ incoming, row, registration }, state, failure, 0);
      await this.#finish(incoming, state);
    } catch (err) {
      this.#unsettled(incoming, err);
    }
  }

  async #settle(
    job: ClaimedJob<Tx>,
    outcome: AttemptOutcome,
    signal: AbortSignal,
    durationMs: number,
  ): Promise<void> {
    const { incoming, row } = job;
    switch (outcome.kind) {
      case "committed":
        this.#report(job, "succeeded", undefined, durationMs);
        await this.#finish(incoming, "succeeded");
        return;
      case "returned": {
        const state = await this.#settlements.complete({ ...row, result: outcome.result });
        await this.#environment.internals.failpoint("worker.afterCommit");
        this.#report(job, state, undefined, durationMs);
        await this.#finish(incoming, state);
        return;
      }
      case "doubtful":
        // Whoever holds the row's lock now, the commit that got no answer or nobody, is waited for.
        this.#logger.warn(fieldsOf(job, { err: outcome.error }), "job commit got no answer");
        await this.#handBack(job, durationMs);
        return;
      case "failed":
        await this.#settleFailure(job, outcome.error, signal, durationMs);
    }
  }

  async #settleFailure(
    job: ClaimedJob<Tx>,
    error: unknown,
    signal: AbortSignal,
    durationMs: number,
  ): Promise<void> {
    const { incoming, row, registration } = job;
    const reason: unknown = signal.reason;
    if (reason instanceof ShutdownError || reason instanceof LeaseLostError) {
      await this.#handBack(job, durationMs);
      return;
    }
    if (error instanceof LeaseLostError) {
      this.#report(job, "lost", undefined, durationMs);
      await this.#finish(incoming, "lost");
      return;
    }
    const failure = failureOf(reason instanceof JobTimeoutError ? reason : error);
    const decision = decideFailure(
      failure,
      row.attempt,
      registration.retry,
      this.#environment.internals.random,
    );
    const delayMs = decision.next === "retry" ? decision.delayMs : undefined;
    const state = await this.#settlements.fail(recordOf(incoming, row, failure, delayMs));
    await this.#environment.internals.failpoint("worker.afterCommit");
    this.#report(job, state, failure, durationMs, delayMs);
    await this.#finish(incoming, state);
  }

  /** Gives the job back, unless its end is in the database already. */
  async #handBack(job: ClaimedJob<Tx>, durationMs: number): Promise<void> {
    const { incoming, row } = job;
    const state = await this.#settlements.release({ ...row, dispatch: incoming.envelope.dispatch });
    if (state === "retry_waiting") {
      this.#logger.info(fieldsOf(job, { durationMs: Math.round(durationMs) }), "job handed back");
      incoming.delivery.requeue();
      return;
    }
    this.#report(job, state, undefined, durationMs);
    await this.#finish(incoming, state);
  }

  async #finish({ delivery }: Incoming, state: Settled): Promise<void> {
    await this.#environment.internals.failpoint("worker.beforeAck");
    if (state === "lost") delivery.requeue();
    else delivery.ack();
  }

  /** The database will never accept what we have to say, or the worker has stopped. */
  #unsettled({ envelope, delivery }: Incoming, err: unknown): void {
    if (!this.#environment.isStopped()) {
      const { id: jobId, queue } = envelope;
      this.#logger.error({ jobId, queue, err }, "job outcome could not be recorded");
    }
    delivery.requeue();
  }

  #report(
    job: ClaimedJob<Tx>,
    state: Settled,
    failure: Failure | undefined,
    durationMs: number,
    delayMs?: number,
  ): void {
    const { row, registration } = job;
    const rounded = Math.round(durationMs);
    attemptChannel.publish({
      jobId: row.id,
      jobName: registration.name,
      queue: row.queue,
      attempt: row.attempt,
      state,
      failureClass: failure?.failureClass,
      durationMs,
    } satisfies AttemptEvent);
    if (state === "succeeded") {
      this.#logger.info(fieldsOf(job, { state, durationMs: rounded }), "job succeeded");
    } else if (failure === undefined) {
      this.#logger.warn(fieldsOf(job, { state, durationMs: rounded }), "job lease lost");
    } else {
      const fields = fieldsOf(job, {
        state,
        durationMs: rounded,
        failureClass: failure.failureClass,
        failureMessage: failure.message,
        ...(delayMs === undefined ? {} : { retryDelayMs: delayMs }),
      });
      if (state === "failed") this.#logger.error(fields, "job failed for good");
      else
        this.#logger.warn(fields, state === "cancelled" ? "job cancelled" : "job attempt failed");
    }
  }
}

function fieldsOf<Tx>(
  { row, registration }: ClaimedJob<Tx>,
  more: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { id, queue, attempt } = row;
  return { jobId: id, jobName: registration.name, queue, attempt, ...more };
}

function recordOf(
  { envelope }: Incoming,
  { id, queue, token }: ClaimedRow,
  failure: Failure,
  retryDelayMs: number | undefined,
): FailureRecord {
  return { id, queue, token, envelope, failure, retryDelayMs, attempted: true };
}
