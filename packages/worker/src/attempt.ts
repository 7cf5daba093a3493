/**
 * One attempt of one job: from the payload's text to an outcome. Records nothing itself, except
 * that a transactional handler's outcome commits with its effects.
 *
 * An attempt is stopped by its signal. A handler that does not stop is given some time, and is then
 * left behind: its slot is free, and whatever it does later has no effect on the job.
 */

import {
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  NotInTransactionError,
} from "@waybill/core";
import type { OwnedJob } from "@waybill/postgres";
import type { AttemptEnvironment, AttemptInput, AttemptOutcome } from "./attempt-parts.ts";
import { AttemptTransactions } from "./attempt-transactions.ts";
import type { Seat } from "./batch/gathering.ts";
import { type CurrentJob, currentJob } from "./current-job.ts";
import { ProgressReporter } from "./progress.ts";
import type { AnyContext, BatchRun, PlainContext, ThreadedHandler } from "./registry.ts";
import { strayErrorsMet } from "./stray-errors.ts";
import { checkpointOf, checkpointText, payloadOf, resultText } from "./values.ts";

/** setTimeout takes at most 2^31 - 1 milliseconds; definitions allow 30 days. */
const timeoutMax = 2_147_483_647;

/** See the head of the file. */
export class Attempt<Tx> {
  readonly #environment: AttemptEnvironment<Tx>;
  readonly #input: AttemptInput<Tx>;
  readonly #controller = new AbortController();
  readonly #abandoned = Promise.withResolvers<AttemptOutcome>();
  readonly #progress: ProgressReporter;
  readonly #transactions: AttemptTransactions<Tx>;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #current: CurrentJob;
  /** What was thrown outside the handler's promise. */
  #stray: { readonly error: unknown } | undefined;
  #isAbandoned = false;
  #hasEnded = false;
  #execution: Promise<AttemptOutcome> | undefined;
  /** Ends the thread of an isolated handler, or leaves a batch. */
  #kill: ((reason: Error) => void) | undefined;
  /** By the monotonic clock. */
  readonly startedAt: number = performance.now();

  constructor(environment: AttemptEnvironment<Tx>, input: AttemptInput<Tx>) {
    this.#environment = environment;
    this.#input = input;
    const { owned, registration } = input;
    this.#current = this.#currentJob();
    this.#progress = new ProgressReporter(owned, registration.name, {
      // The worker's own work: what opens there, and goes wrong there, is no job's.
      write: (report) => currentJob.exit(() => environment.progress.write(report)),
    });
    this.#transactions = new AttemptTransactions({
      environment,
      input,
      signal: this.signal,
      checkStopped: () => this.#checkStopped(),
      checkOwnership: () => this.#checkOwnership(),
    });
  }

  get job(): OwnedJob {
    return this.#input.owned;
  }

  get jobId(): string {
    return this.#input.envelope.id;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Settles when a handler that was left behind has ended; undefined where none was. */
  get leftBehind(): Promise<unknown> | undefined {
    return this.#isAbandoned ? this.#execution : undefined;
  }

  /** Asks the handler to stop. What its listeners throw is the job's, whoever asks. */
  abort(reason: unknown): void {
    currentJob.run(this.#current, () => this.#controller.abort(reason));
  }

  /** Asks the handler to stop, and leaves it behind after `graceMs`, by default the worker's. */
  stop(reason: unknown, graceMs?: number): void {
    if (this.#hasEnded) return;
    this.abort(reason);
    this.#after(graceMs ?? this.#environment.abandonMs, () => {
      const { id: jobId, type: jobName } = this.#input.envelope;
      this.#environment.logger.error(
        { jobId, jobName },
        "handler ignores its signal and is left behind",
      );
      this.abandon();
    });
  }

  /** Waits for the handler no more: whatever it does later has no effect. */
  abandon(): void {
    if (this.#hasEnded) return;
    this.#isAbandoned = true;
    const error: unknown = this.signal.reason;
    this.#abandoned.resolve({ kind: "failed", error });
    this.#kill?.(
      error instanceof Error ? error : new Error("The job was given up.", { cause: error }),
    );
  }

  /** Runs the handler. Never rejects. */
  async run(): Promise<AttemptOutcome> {
    // In a batch time runs from the start of the batch.
    if (this.#input.registration.run.kind !== "batch") this.#startTimeouts();
    this.#execution = currentJob.run(this.#current, () => this.#execute());
    try {
      return await Promise.race([this.#execution, this.#abandoned.promise]);
    } finally {
      this.#hasEnded = true;
      for (const timer of this.#timers) clearTimeout(timer);
      await this.#progress.end();
    }
  }

  #currentJob(): CurrentJob {
    const { envelope, attempt, registration } = this.#input;
    return {
      jobId: envelope.id,
      jobName: registration.name,
      queue: envelope.queue,
      attempt,
      logger: this.#environment.logger,
      ended: () => this.#hasEnded,
      fail: (error) => {
        if (this.#hasEnded || this.#stray !== undefined) return;
        this.#stray = { error };
        this.stop(error);
      },
    };
  }

  #startTimeouts(): void {
    const { timeoutMs, hardTimeoutMs, name } = this.#input.registration;
    if (timeoutMs === 0) return;
    const { id } = this.#input.envelope;
    const graceMs = hardTimeoutMs === 0 ? this.#environment.abandonMs : hardTimeoutMs - timeoutMs;
    this.#after(timeoutMs, () => {
      this.stop(
        new JobTimeoutError(
          `Cannot go on with job ${id} ("${name}"): it ran longer than ${timeoutMs} ms. Raise timeoutMs, or do less in one job.`,
        ),
        graceMs,
      );
    });
  }

  #after(milliseconds: number, act: () => void): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        act();
      },
      Math.min(milliseconds, timeoutMax),
    );
    this.#timers.add(timer);
  }

  async #execute(): Promise<AttemptOutcome> {
    const { registration, envelope } = this.#input;
    const { run } = registration;
    // Before anything is waited for: a batch waits for those that are on their way.
    const seat = run.kind === "batch" ? this.#reserve(run) : undefined;
    try {
      const { encryption } = this.#environment;
      const context = this.#contextOf(await payloadOf(registration, envelope, encryption));
      if (run.kind === "transactional") {
        return this.#blamed(await this.#transactions.ending((tx) => run.handler(context, tx)));
      }
      const checkpoint = await this.#readCheckpoint();
      const plain: PlainContext<Tx> = {
        ...context,
        checkpoint,
        transaction: (work) => this.#transactions.guarded(work),
        saveCheckpoint: (tx, given) => this.#saveCheckpoint(tx, given),
      };
      const value =
        run.kind === "isolated"
          ? await this.#inThread(run.handler, { ...context, checkpoint })
          : run.kind === "plain"
            ? await run.handler(plain)
            : await this.#inBatch(seat ?? this.#reserve(run), plain);
      await strayErrorsMet();
      this.#checkStopped();
      return { kind: "returned", result: await resultText(registration, value) };
    } catch (error) {
      return this.#blamed({ kind: "failed", error });
    } finally {
      seat?.leave();
    }
  }

  /** What was thrown outside the handler's promise is why it failed, whatever it threw itself. */
  #blamed(outcome: AttemptOutcome): AttemptOutcome {
    return outcome.kind === "failed" && this.#stray !== undefined
      ? { kind: "failed", error: this.#stray.error }
      : outcome;
  }

  #contextOf(payload: unknown): AnyContext {
    const { envelope, attempt, registration } = this.#input;
    return {
      id: envelope.id,
      name: registration.name,
      payload,
      attempt,
      signal: this.signal,
      correlationId: envelope.correlationId ?? undefined,
      concurrencyKey: envelope.concurrencyKey ?? undefined,
      headers: envelope.headers,
      enqueuedAt: envelope.enqueuedAt,
      priority: envelope.priority ?? 0,
      reportProgress: (progress) => this.#progress.report(progress),
    };
  }

  async #readCheckpoint(): Promise<unknown> {
    const { registration, owned } = this.#input;
    if (registration.checkpoint === undefined) return undefined;
    // The worker's own work, as above: an outage that it meets is not this job's.
    const text = await currentJob.exit(() => this.#environment.readCheckpoint(owned));
    return text === undefined ? undefined : await checkpointOf(registration, text);
  }

  async #saveCheckpoint(tx: Tx, checkpoint: unknown): Promise<void> {
    const { database, fence } = this.#environment;
    const { owned, registration } = this.#input;
    const text = await checkpointText(registration, checkpoint);
    this.#checkOwnership();
    const executor = database.executor(tx);
    if (executor.inTransaction?.() === false) throw new NotInTransactionError("save a checkpoint");
    if (!(await fence.saveCheckpoint(executor, owned, text))) throw new LeaseLostError(owned.id);
  }

  #reserve(run: BatchRun<Tx>): Seat<Tx> {
    return this.#environment.batches.reserve(run, this.#input.envelope.queue);
  }

  async #inBatch(seat: Seat<Tx>, context: PlainContext<Tx>): Promise<unknown> {
    const entry = seat.join({
      context,
      current: this.#current,
      isSuspect: this.#input.isSuspect,
      stop: (reason) => this.stop(reason),
      onStart: () => this.#startTimeouts(),
    });
    this.#kill = (reason) => entry.leaveBehind(reason);
    return await entry.ended;
  }

  async #inThread(
    handler: ThreadedHandler,
    context: AnyContext & { readonly checkpoint: unknown },
  ): Promise<unknown> {
    const { result, kill } = handler.start(context);
    this.#kill = kill;
    return await result;
  }

  /** A handler that went on after it was told to stop has failed, whatever it returned. */
  #checkStopped(): void {
    const reason: unknown = this.signal.reason;
    if (
      this.#isAbandoned ||
      this.#stray !== undefined ||
      reason instanceof JobTimeoutError ||
      reason instanceof JobCancelledError
    ) {
      throw reason as Error;
    }
  }

  #checkOwnership(): void {
    const reason: unknown = this.signal.reason;
    if (this.#isAbandoned || reason instanceof LeaseLostError) throw reason as Error;
  }
}
