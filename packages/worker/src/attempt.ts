/**
 * One attempt of one job: from the payload's text to an outcome. Records nothing itself, except
 * that a transactional handler's outcome commits with its effects.
 *
 * An attempt is stopped by its signal. A handler that does not stop is given some time, and is then
 * left behind: its slot is free, and whatever it does later has no effect on the job.
 */

import { setTimeout as delay } from "node:timers/promises";
import {
  type Envelope,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  type Logger,
  NotInTransactionError,
  TransactionMisusedError,
} from "@waybill/core";
import {
  type Database,
  type JobFence,
  type JobRef,
  type OwnedJob,
  type SqlExecutor,
  sqlStateOf,
  unavailableError,
} from "@waybill/postgres";
import { type CurrentJob, currentJob } from "./current-job.ts";
import type { Internals } from "./internals.ts";
import { ProgressReporter, type ProgressWriter } from "./progress.ts";
import type { AnyContext, Registration } from "./registry.ts";
import { checkpointOf, checkpointText, payloadOf, resultText } from "./values.ts";

/** In-process tries after a serialization failure or deadlock; they spend no attempt. */
const raceTries = 3;
/** How long a transaction that cannot begin is tried again, in milliseconds. */
const beginPatienceMs = 60_000;
/** setTimeout takes at most 2^31 - 1 milliseconds; definitions allow 30 days. */
const timeoutMax = 2_147_483_647;

/**
 * How an attempt ended.
 *
 * - `returned`: a plain handler gave its result; the completion is still to be recorded
 * - `committed`: the outcome is in the database with the effects
 * - `failed`: with what was thrown
 * - `doubtful`: COMMIT got no answer; the inbox knows
 */
export type AttemptOutcome =
  | { readonly kind: "returned"; readonly result: string | null }
  | { readonly kind: "committed" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "doubtful"; readonly error: unknown };

/** What all attempts of a worker share. */
export interface AttemptEnvironment<Tx> {
  readonly database: Database<Tx>;
  readonly fence: JobFence;
  readonly logger: Logger;
  readonly internals: Internals;
  /** How long a handler may go on after it was told to stop, in milliseconds. */
  readonly abandonMs: number;
  /** True when the worker has ended: nothing can be recorded any more. */
  readonly isStopped: () => boolean;
  /** The newest checkpoint of a job as JSON text. */
  readonly readCheckpoint: (job: JobRef) => Promise<string | undefined>;
  readonly progress: Pick<ProgressWriter, "write">;
}

/** A claimed job with its handler. */
export interface AttemptInput<Tx> {
  readonly envelope: Envelope;
  readonly owned: OwnedJob;
  readonly attempt: number;
  readonly registration: Registration<Tx>;
  /** Around the writing of the job's end; see Holding. */
  readonly holding: { begin(): Promise<OwnedJob>; end(): void };
}

interface Phase {
  phase: "begin" | "work" | "commit";
}

/** See the head of the file. */
export class Attempt<Tx> {
  readonly #environment: AttemptEnvironment<Tx>;
  readonly #input: AttemptInput<Tx>;
  readonly #controller = new AbortController();
  readonly #abandoned = Promise.withResolvers<AttemptOutcome>();
  readonly #progress: ProgressReporter;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** What was thrown outside the handler's promise. */
  #stray: { readonly error: unknown } | undefined;
  #isAbandoned = false;
  #hasEnded = false;
  #execution: Promise<AttemptOutcome> | undefined;
  /** Ends the thread of an isolated handler. */
  #kill: ((reason: Error) => void) | undefined;
  /** By the monotonic clock. */
  readonly startedAt: number = performance.now();

  constructor(environment: AttemptEnvironment<Tx>, input: AttemptInput<Tx>) {
    this.#environment = environment;
    this.#input = input;
    const { owned, registration } = input;
    this.#progress = new ProgressReporter(owned, registration.name, environment.progress);
  }

  get job(): JobRef {
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

  /** Asks the handler to stop. */
  abort(reason: unknown): void {
    this.#controller.abort(reason);
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
    this.#startTimeouts();
    this.#execution = currentJob.run(this.#currentJob(), () => this.#execute());
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
    try {
      const { registration, envelope } = this.#input;
      const context = this.#contextOf(await payloadOf(registration, envelope));
      const { run } = registration;
      if (run.kind === "transactional") {
        return await this.#inTransaction((tx) => run.handler(context, tx));
      }
      const checkpoint = await this.#readCheckpoint();
      const value =
        run.kind === "isolated"
          ? await this.#inThread(run.handler, { ...context, checkpoint })
          : await run.handler({
              ...context,
              checkpoint,
              transaction: (work) => this.#guardedTransaction(work),
              saveCheckpoint: (tx, given) => this.#saveCheckpoint(tx, given),
            });
      this.#checkStopped();
      return { kind: "returned", result: await resultText(registration, value) };
    } catch (error) {
      return { kind: "failed", error: this.#stray === undefined ? error : this.#stray.error };
    }
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
      headers: envelope.headers,
      enqueuedAt: envelope.enqueuedAt,
      priority: envelope.priority ?? 0,
      reportProgress: (progress) => this.#progress.report(progress),
    };
  }

  async #readCheckpoint(): Promise<unknown> {
    const { registration, owned } = this.#input;
    if (registration.checkpoint === undefined) return undefined;
    const text = await this.#environment.readCheckpoint(owned);
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

  async #inThread(
    handler: Extract<Registration<Tx>["run"], { readonly kind: "isolated" }>["handler"],
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

  async #guardedTransaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { database, fence } = this.#environment;
    const { owned } = this.#input;
    this.#checkOwnership();
    return await database.transaction(async (tx) => {
      const value = await work(tx);
      this.#checkOwnership();
      const executor = database.executor(tx);
      this.#checkTransaction(executor);
      if (!(await fence.guard(executor, owned))) throw new LeaseLostError(owned.id);
      return value;
    });
  }

  #checkTransaction(executor: SqlExecutor): void {
    if (executor.inTransaction?.() !== false) return;
    throw new TransactionMisusedError(
      `Cannot commit job ${this.#input.envelope.id}: its transaction was ended by the handler. Return to commit, throw to roll back.`,
    );
  }

  async #inTransaction(handler: (tx: Tx) => Promise<unknown>): Promise<AttemptOutcome> {
    const startedAt = performance.now();
    for (let races = 0, begins = 1; ;) {
      const progress: Phase = { phase: "begin" };
      try {
        await this.#transaction(handler, progress);
        await this.#environment.internals.failpoint("worker.afterCommit");
        return { kind: "committed" };
      } catch (error) {
        if (this.signal.aborted) return this.#outcomeOf(error, progress.phase);
        if (progress.phase === "begin") {
          // No connection to be had: nothing has run, so nothing is spent.
          if (performance.now() - startedAt > beginPatienceMs) return { kind: "failed", error };
          await this.#pause(Math.min(5_000, 100 * 2 ** begins));
          begins += 1;
        } else if (isLostRace(error) && races < raceTries) {
          races += 1;
          await this.#pause(20 * 2 ** races);
        } else {
          return this.#outcomeOf(error, progress.phase);
        }
        if (this.signal.aborted) return { kind: "failed", error };
      }
    }
  }

  /** Half of it certain, half by chance. */
  async #pause(bound: number): Promise<void> {
    const { random } = this.#environment.internals;
    const wait = bound / 2 + (random() * bound) / 2;
    await delay(wait, undefined, { signal: this.signal }).catch(() => undefined);
  }

  #outcomeOf(error: unknown, phase: Phase["phase"]): AttemptOutcome {
    // A refusal by PostgreSQL is an answer. Anything else at COMMIT may hide a commit.
    const isAnswer =
      sqlStateOf(error) !== undefined && unavailableError("commit", error) === undefined;
    const isOurs = error instanceof TransactionMisusedError;
    if (phase === "commit" && !isAnswer && !isOurs) return { kind: "doubtful", error };
    return { kind: "failed", error: this.#stray === undefined ? error : this.#stray.error };
  }

  async #transaction(handler: (tx: Tx) => Promise<unknown>, progress: Phase): Promise<void> {
    const { database, fence, internals } = this.#environment;
    const { holding, registration } = this.#input;
    try {
      await database.transaction(async (tx) => {
        progress.phase = "work";
        const value = await handler(tx);
        const result = await resultText(registration, value);
        this.#checkStopped();
        this.#checkOwnership();
        const executor = database.executor(tx);
        this.#checkTransaction(executor);
        const owned = await holding.begin();
        if (!(await fence.complete(executor, owned, result))) throw new LeaseLostError(owned.id);
        await internals.failpoint("worker.beforeCommit");
        progress.phase = "commit";
      });
    } finally {
      holding.end();
    }
  }
}

/** True where PostgreSQL rolled the transaction back only because of another one. */
function isLostRace(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "40001" || state === "40P01";
}
