/**
 * One attempt of one job: from the payload's text to an outcome. Records nothing itself, except
 * that a transactional handler's outcome commits with its effects.
 */

import { setTimeout as delay } from "node:timers/promises";
import {
  decodePayload,
  encodePayload,
  type Envelope,
  JobTimeoutError,
  LeaseLostError,
  type Logger,
  PayloadError,
  payloadBytesMax,
  TransactionMisusedError,
  validateValue,
} from "@waybill/core";
import {
  type Database,
  type JobFence,
  type OwnedJob,
  type SqlExecutor,
  sqlStateOf,
  unavailableError,
} from "@waybill/postgres";
import type { Internals } from "./internals.ts";
import type { AnyContext, Registration } from "./registry.ts";
import { upcast } from "./upcast.ts";

/** Largest result, in bytes of JSON: 64 KiB. */
export const resultBytesMax = 65_536;
/** In-process tries after a serialization failure or deadlock; they spend no attempt. */
const raceTries = 3;
/** How long a transaction that cannot begin is tried again, in milliseconds. */
const beginPatienceMs = 60_000;

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
  /** How long a handler may go on after its signal has aborted for its timeout, in milliseconds. */
  readonly abandonMs: number;
  /** True when the worker has ended: nothing can be recorded any more. */
  readonly isStopped: () => boolean;
}

/** A claimed job with its handler. */
export interface AttemptInput<Tx> {
  readonly envelope: Envelope;
  readonly owned: OwnedJob;
  readonly attempt: number;
  readonly registration: Registration<Tx>;
}

/** See the head of the file. */
export class Attempt<Tx> {
  readonly #environment: AttemptEnvironment<Tx>;
  readonly #input: AttemptInput<Tx>;
  readonly #controller = new AbortController();
  readonly #abandoned = Promise.withResolvers<AttemptOutcome>();
  #isAbandoned = false;

  constructor(environment: AttemptEnvironment<Tx>, input: AttemptInput<Tx>) {
    this.#environment = environment;
    this.#input = input;
  }

  get jobId(): string {
    return this.#input.envelope.id;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Asks the handler to stop. */
  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Waits for the handler no more: whatever it does later has no effect. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#abandoned.resolve({ kind: "failed", error: this.signal.reason });
  }

  /** Runs the handler. Never rejects. */
  async run(): Promise<AttemptOutcome> {
    const { timeoutMs, name } = this.#input.registration;
    let abandonTimer: NodeJS.Timeout | undefined;
    // setTimeout takes at most 2^31 - 1 milliseconds; definitions allow 30 days.
    const timer =
      timeoutMs === 0
        ? undefined
        : setTimeout(
            () => {
              const { id } = this.#input.envelope;
              this.abort(
                new JobTimeoutError(
                  `Cannot go on with job ${id} ("${name}"): it ran longer than ${timeoutMs} ms. Raise timeoutMs, or do less in one job.`,
                ),
              );
              abandonTimer = setTimeout(() => {
                this.#environment.logger.error(
                  { jobId: id, jobName: name },
                  "handler ignores its signal and is left behind",
                );
                this.abandon();
              }, this.#environment.abandonMs);
            },
            Math.min(timeoutMs, 2_147_483_647),
          );
    try {
      return await Promise.race([this.#execute(), this.#abandoned.promise]);
    } finally {
      clearTimeout(timer);
      clearTimeout(abandonTimer);
    }
  }

  async #execute(): Promise<AttemptOutcome> {
    try {
      const context = this.#contextOf(await this.#payload());
      const { run } = this.#input.registration;
      if (run.kind === "transactional") {
        return await this.#inTransaction((tx) => run.handler(context, tx));
      }
      const value = await run.handler({
        ...context,
        transaction: (work) => this.#guardedTransaction(work),
      });
      this.#checkTimeout();
      return { kind: "returned", result: await this.#resultOf(value) };
    } catch (error) {
      return { kind: "failed", error };
    }
  }

  async #payload(): Promise<unknown> {
    const { envelope, registration } = this.#input;
    if (envelope.payloadBase64) {
      throw new PayloadError(registration.name, [{ path: "", message: "is not text" }]);
    }
    const decoded = decodePayload(envelope.payload, payloadBytesMax);
    if (decoded.issues !== undefined) throw new PayloadError(registration.name, decoded.issues);
    const payload = upcast(registration, envelope.version, decoded.value);
    const valid = await validateValue(registration.payload, payload);
    if (valid.issues !== undefined) throw new PayloadError(registration.name, valid.issues);
    return valid.value;
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
    };
  }

  /** A handler that went on after its timeout has failed, whatever it returned. */
  #checkTimeout(): void {
    if (this.#isAbandoned || this.signal.reason instanceof JobTimeoutError) {
      throw this.signal.reason as Error;
    }
  }

  async #resultOf(value: unknown): Promise<string | null> {
    const { result: schema, name } = this.#input.registration;
    if (schema === undefined) return null;
    const valid = await validateValue(schema, value);
    const checked = valid.issues === undefined ? encodePayload(valid.value, resultBytesMax) : valid;
    if (checked.issues === undefined) return checked.text;
    throw new PayloadError(
      name,
      checked.issues.map(({ path, message }) => ({
        path: path === "" ? "(result)" : `(result).${path}`,
        message,
      })),
    );
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

  #checkOwnership(): void {
    const reason: unknown = this.signal.reason;
    if (this.#isAbandoned || reason instanceof LeaseLostError) throw reason as Error;
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
      const progress: { phase: "begin" | "work" | "commit" } = { phase: "begin" };
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

  #outcomeOf(error: unknown, phase: "begin" | "work" | "commit"): AttemptOutcome {
    // A refusal by PostgreSQL is an answer. Anything else at COMMIT may hide a commit.
    const isAnswer =
      sqlStateOf(error) !== undefined && unavailableError("commit", error) === undefined;
    const isOurs = error instanceof TransactionMisusedError;
    return phase === "commit" && !isAnswer && !isOurs
      ? { kind: "doubtful", error }
      : { kind: "failed", error };
  }

  async #transaction(
    handler: (tx: Tx) => Promise<unknown>,
    progress: { phase: "begin" | "work" | "commit" },
  ): Promise<void> {
    const { database, fence, internals } = this.#environment;
    const { owned } = this.#input;
    await database.transaction(async (tx) => {
      progress.phase = "work";
      const value = await handler(tx);
      const result = await this.#resultOf(value);
      this.#checkTimeout();
      this.#checkOwnership();
      const executor = database.executor(tx);
      this.#checkTransaction(executor);
      if (!(await fence.complete(executor, owned, result))) throw new LeaseLostError(owned.id);
      await internals.failpoint("worker.beforeCommit");
      progress.phase = "commit";
    });
  }
}

/** True where PostgreSQL rolled the transaction back only because of another one. */
function isLostRace(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === "40001" || state === "40P01";
}
