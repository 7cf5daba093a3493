/**
 * Runs claimed jobs and settles them: the outcome first, the ack after it. A delivery is acked
 * only when the database says so; where the job is not this attempt's any more, it goes back to the
 * queue, whose next claim decides.
 */

import {
  decideFailure,
  type Envelope,
  type Failure,
  failureOf,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  type Logger,
  ShutdownError,
  statedFailure,
} from "@waybill/core";
import type { CancelRequest, ClaimedRow, FailureRecord, JobRef, OwnedJob } from "@waybill/postgres";
import { Attempt } from "./attempt.ts";
import { publishAttempt } from "./attempt-event.ts";
import type { AttemptEnvironment, AttemptOutcome } from "./attempt-parts.ts";
import type { FinishedAttempt } from "./dependencies.ts";
import { Holding } from "./holding.ts";
import type { Incoming } from "./incoming.ts";
import type { News } from "./news.ts";
import type { Registration } from "./registry.ts";
import { keyOf, type Settled, type Settlements } from "./settlements.ts";
import { suspectCrashes } from "./verdict.ts";

/** A job that this worker owns, ready to run. */
export interface ClaimedJob<Tx> {
  readonly incoming: Incoming;
  readonly row: ClaimedRow & Pick<OwnedJob, "slotted">;
  readonly registration: Registration<Tx>;
}

/** A job on its way from claim to ack. */
interface Flight<Tx> extends ClaimedJob<Tx> {
  readonly holding: Holding;
  /** By the monotonic clock. */
  readonly startedAt: number;
}

/** Options of {@link JobRunner}. */
export interface JobRunnerOptions<Tx> {
  readonly environment: AttemptEnvironment<Tx>;
  readonly settlements: Settlements;
  readonly news: Pick<News, "changed">;
  /** Whether an ordering key waits for the retry of this job. */
  readonly blocksOrder: (envelope: Envelope, attempt: number) => boolean;
  /** Called with each attempt whose end is recorded. */
  readonly onEnd: (attempt: FinishedAttempt, state: Settled, failure: Failure | undefined) => void;
  /** Milliseconds that a delivery is held; see Holding. */
  readonly holdMs: number;
  /** The job goes on without its delivery. */
  readonly onLeased: (incoming: Incoming) => void;
}

/** See the head of the file. */
export class JobRunner<Tx> {
  readonly #options: JobRunnerOptions<Tx>;
  readonly #environment: AttemptEnvironment<Tx>;
  readonly #settlements: Settlements;
  readonly #logger: Logger;
  readonly #attempts = new Map<string, Attempt<Tx>>();
  #finished = 0;
  #leftBehind = 0;

  constructor(options: JobRunnerOptions<Tx>) {
    this.#options = options;
    this.#environment = options.environment;
    this.#settlements = options.settlements;
    this.#logger = options.environment.logger;
  }

  /** Handlers running now. */
  get running(): number {
    return this.#attempts.size;
  }

  /** Attempts that have ended since the start. */
  get finished(): number {
    return this.#finished;
  }

  /** Handlers that were left behind and still go on. */
  get leftBehind(): number {
    return this.#leftBehind;
  }

  /** Jobs that have been running for at least so long. */
  runningFor(milliseconds: number): readonly OwnedJob[] {
    const before = performance.now() - milliseconds;
    return [...this.#attempts.values()]
      .filter(({ startedAt }) => startedAt <= before)
      .map(({ job }) => job);
  }

  /** Stops a job that somebody wants cancelled, if it runs here. */
  cancel({ id, queue, actor, reason }: CancelRequest): void {
    const attempt = this.#attempts.get(keyOf({ id, queue }));
    if (attempt === undefined || attempt.signal.aborted) return;
    const who = `${actor ?? "somebody"} cancelled it${reason === null ? "" : ` (${reason})`}`;
    this.#logger.info({ jobId: id, queue, actor, reason }, "job is to be cancelled");
    attempt.stop(
      new JobCancelledError(
        `Cannot go on with job ${id}: ${who}. Stop; nothing of it is run again.`,
      ),
    );
  }

  /** Stops a job that another attempt owns, if it still runs here. */
  lose(job: JobRef): void {
    const attempt = this.#attempts.get(keyOf(job));
    if (attempt === undefined || attempt.signal.aborted) return;
    this.#logger.warn({ jobId: job.id, queue: job.queue }, "job was taken over");
    attempt.stop(new LeaseLostError(job.id));
  }

  /** Asks all handlers to stop, and leaves behind those that do not. */
  stopAll(reasonOf: (jobId: string) => Error): void {
    for (const attempt of this.#attempts.values()) attempt.stop(reasonOf(attempt.jobId));
  }

  /** Asks all handlers to stop. */
  abortAll(reasonOf: (jobId: string) => Error): void {
    for (const attempt of this.#attempts.values()) attempt.abort(reasonOf(attempt.jobId));
  }

  /** Waits for no handler any more. */
  abandonAll(): void {
    for (const attempt of this.#attempts.values()) attempt.abandon();
  }

  /**
   * Runs a job to its settled end. Never rejects.
   *
   * @param onHandlerEnd called when the handler has ended, before the outcome is recorded
   */
  async run(job: ClaimedJob<Tx>, onHandlerEnd: () => void): Promise<void> {
    const { incoming, row, registration } = job;
    const flight = this.#flightOf(job);
    const { holding } = flight;
    const attempt = new Attempt(this.#environment, {
      envelope: incoming.envelope,
      owned: row,
      attempt: row.attempt,
      isSuspect: row.crashes >= suspectCrashes,
      registration,
      holding,
    });
    this.#attempts.set(incoming.key, attempt);
    this.#options.news.changed(row.id);
    const startedAt = performance.now();
    const outcome = await attempt.run();
    const durationMs = performance.now() - startedAt;
    this.#attempts.delete(incoming.key);
    this.#finished += 1;
    this.#watchLeftBehind(attempt);
    onHandlerEnd();
    try {
      await this.#settle(flight, outcome, attempt.signal, durationMs);
    } catch (err) {
      this.#unsettled(flight, err);
    } finally {
      holding.stop();
      this.#options.news.changed(row.id);
    }
  }

  #flightOf(job: ClaimedJob<Tx>): Flight<Tx> {
    const { incoming, row } = job;
    const holding = new Holding({
      incoming,
      owned: row,
      holdMs: this.#options.holdMs,
      settlements: this.#settlements,
      logger: this.#logger,
      onLeased: () => this.#options.onLeased(incoming),
      onLost: () => this.#attempts.get(incoming.key)?.stop(new LeaseLostError(row.id)),
    });
    return { ...job, holding, startedAt: performance.now() };
  }

  #watchLeftBehind(attempt: Attempt<Tx>): void {
    const { leftBehind } = attempt;
    if (leftBehind === undefined) return;
    this.#leftBehind += 1;
    void leftBehind.finally(() => (this.#leftBehind -= 1));
  }

  /** Ends a job whose workers died too often, without running it again. Never rejects. */
  async bury(job: ClaimedJob<Tx>): Promise<void> {
    const flight = this.#flightOf(job);
    const { row, holding } = flight;
    const failure = statedFailure(
      "crashed",
      `The worker's process died ${row.crashes} times while it ran this job.`,
    );
    try {
      const state = await this.#settlements.fail(await recordOf(flight, failure, undefined));
      this.#report(flight, state, failure, 0);
      await this.#finish(flight, state);
    } catch (err) {
      this.#unsettled(flight, err);
    } finally {
      holding.stop();
      this.#options.news.changed(row.id);
    }
  }

  async #settle(
    flight: Flight<Tx>,
    outcome: AttemptOutcome,
    signal: AbortSignal,
    durationMs: number,
  ): Promise<void> {
    switch (outcome.kind) {
      case "committed":
        this.#report(flight, "succeeded", undefined, durationMs);
        await this.#finish(flight, "succeeded");
        return;
      case "returned": {
        const owned = await flight.holding.begin();
        const { result } = outcome;
        const state = await this.#settlements.complete({ ...owned, result, ranMs: durationMs });
        await this.#environment.internals.failpoint("worker.afterCommit");
        this.#report(flight, state, undefined, durationMs);
        await this.#finish(flight, state);
        return;
      }
      case "doubtful":
        // Whoever holds the row's lock now, the commit that got no answer or nobody, is waited for.
        this.#logger.warn(fieldsOf(flight, { err: outcome.error }), "job commit got no answer");
        await this.#handBack(flight, durationMs);
        return;
      case "failed":
        await this.#settleFailure(flight, outcome.error, signal, durationMs);
    }
  }

  async #settleFailure(
    flight: Flight<Tx>,
    error: unknown,
    signal: AbortSignal,
    durationMs: number,
  ): Promise<void> {
    const { row, registration, holding } = flight;
    const reason: unknown = signal.reason;
    if (reason instanceof ShutdownError || reason instanceof LeaseLostError) {
      await this.#handBack(flight, durationMs);
      return;
    }
    if (error instanceof LeaseLostError) {
      this.#report(flight, "lost", undefined, durationMs);
      await this.#finish(flight, "lost");
      return;
    }
    if (reason instanceof JobCancelledError) {
      const state = await this.#settlements.cancel(await holding.begin());
      await this.#environment.internals.failpoint("worker.afterCommit");
      this.#report(flight, state, undefined, durationMs);
      await this.#finish(flight, state);
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
    const blocks = this.#options.blocksOrder(flight.incoming.envelope, row.attempt);
    const record = await recordOf(flight, failure, delayMs);
    const state = await this.#settlements.fail({ ...record, blocks });
    await this.#environment.internals.failpoint("worker.afterCommit");
    this.#report(flight, state, failure, durationMs, delayMs);
    await this.#finish(flight, state);
  }

  /** Gives the job back, unless its end is in the database already. */
  async #handBack(flight: Flight<Tx>, durationMs: number): Promise<void> {
    const { incoming, holding } = flight;
    const owned = await holding.begin();
    const state = await this.#settlements.release({
      ...owned,
      dispatch: incoming.envelope.dispatch,
    });
    if (state === "retry_waiting") {
      this.#logger.info(
        fieldsOf(flight, { durationMs: Math.round(durationMs) }),
        "job handed back",
      );
      holding.requeue();
      return;
    }
    this.#report(flight, state, undefined, durationMs);
    await this.#finish(flight, state);
  }

  async #finish({ holding }: Flight<Tx>, state: Settled): Promise<void> {
    await this.#environment.internals.failpoint("worker.beforeAck");
    if (state === "lost") holding.requeue();
    else holding.ack();
    // Gathered with others, the ack is not with the broker yet.
    await this.#environment.internals.failpoint("worker.afterAck");
  }

  /** The database will never accept what we have to say, or the worker has stopped. */
  #unsettled({ incoming, holding }: Flight<Tx>, err: unknown): void {
    if (!this.#environment.isStopped()) {
      const { id: jobId, queue } = incoming.envelope;
      this.#logger.error({ jobId, queue, err }, "job outcome could not be recorded");
    }
    holding.requeue();
  }

  #report(
    job: Flight<Tx>,
    state: Settled,
    failure: Failure | undefined,
    durationMs: number,
    delayMs?: number,
  ): void {
    const { row, registration } = job;
    const rounded = Math.round(durationMs);
    this.#options.onEnd(job, state, failure);
    const { name: jobName } = registration;
    const { id: jobId, queue, attempt } = row;
    const { failureClass } = failure ?? {};
    publishAttempt(
      { jobId, jobName, queue, attempt, state, failureClass, durationMs },
      this.#logger,
    );
    if (state === "succeeded") {
      this.#logger.info(fieldsOf(job, { state, durationMs: rounded }), "job succeeded");
    } else if (failure === undefined) {
      const what = state === "cancelled" ? "job cancelled" : "job lease lost";
      this.#logger.warn(fieldsOf(job, { state, durationMs: rounded }), what);
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

async function recordOf<Tx>(
  { incoming, holding }: Flight<Tx>,
  failure: Failure,
  retryDelayMs: number | undefined,
): Promise<FailureRecord> {
  const { envelope } = incoming;
  return { ...(await holding.begin()), envelope, failure, retryDelayMs, attempted: true };
}
