/**
 * The transactions of an attempt, on the application's data layer. One that ends the job commits its
 * effects and its outcome together; the others commit effects only while the job is this attempt's.
 */

import { setTimeout as delay } from "node:timers/promises";
import { LeaseLostError, TransactionMisusedError } from "@waybill/core";
import { type SqlExecutor, sqlStateOf, unavailableError } from "@waybill/postgres";
import type { AttemptEnvironment, AttemptInput, AttemptOutcome } from "./attempt-parts.ts";
import { strayErrorsMet } from "./stray-errors.ts";
import { resultText } from "./values.ts";

/** In-process tries after a serialization failure or deadlock; they spend no attempt. */
const raceTries = 3;
/** How long a transaction that cannot begin is tried again, in milliseconds. */
const beginPatienceMs = 60_000;

/** Options of {@link AttemptTransactions}. */
export interface AttemptTransactionsOptions<Tx> {
  readonly environment: AttemptEnvironment<Tx>;
  readonly input: AttemptInput<Tx>;
  readonly signal: AbortSignal;
  /** Throws where the attempt was told to stop, so that nothing it did counts. */
  readonly checkStopped: () => void;
  /** Throws where the attempt may write nothing any more. */
  readonly checkOwnership: () => void;
}

interface Phase {
  phase: "begin" | "work" | "commit";
}

/** See the head of the file. */
export class AttemptTransactions<Tx> {
  readonly #options: AttemptTransactionsOptions<Tx>;

  constructor(options: AttemptTransactionsOptions<Tx>) {
    this.#options = options;
  }

  /** Runs `work` in a transaction that commits only while this attempt owns the job. */
  async guarded<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { database, fence } = this.#options.environment;
    const { owned } = this.#options.input;
    this.#options.checkOwnership();
    return await database.transaction(async (tx) => {
      const value = await work(tx);
      this.#options.checkOwnership();
      const executor = database.executor(tx);
      this.#checkTransaction(executor);
      if (!(await fence.guard(executor, owned))) throw new LeaseLostError(owned.id);
      return value;
    });
  }

  #checkTransaction(executor: SqlExecutor): void {
    if (executor.inTransaction?.() !== false) return;
    throw new TransactionMisusedError(
      `Cannot commit job ${this.#options.input.envelope.id}: its transaction was ended by the handler. Return to commit, throw to roll back.`,
    );
  }

  /** Runs a handler in the transaction that ends its job. */
  async ending(handler: (tx: Tx) => Promise<unknown>): Promise<AttemptOutcome> {
    const startedAt = performance.now();
    for (let races = 0, begins = 1; ;) {
      const progress: Phase = { phase: "begin" };
      try {
        await this.#transaction(handler, progress);
        await this.#options.environment.internals.failpoint("worker.afterCommit");
        return { kind: "committed" };
      } catch (error) {
        if (this.#options.signal.aborted) return this.#outcomeOf(error, progress.phase);
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
        if (this.#options.signal.aborted) return { kind: "failed", error };
      }
    }
  }

  /** Half of it certain, half by chance. */
  async #pause(bound: number): Promise<void> {
    const { random } = this.#options.environment.internals;
    const wait = bound / 2 + (random() * bound) / 2;
    await delay(wait, undefined, { signal: this.#options.signal }).catch(() => undefined);
  }

  #outcomeOf(error: unknown, phase: Phase["phase"]): AttemptOutcome {
    // A refusal by PostgreSQL is an answer. Anything else at COMMIT may hide a commit.
    const isAnswer =
      sqlStateOf(error) !== undefined && unavailableError("commit", error) === undefined;
    const isOurs = error instanceof TransactionMisusedError;
    if (phase === "commit" && !isAnswer && !isOurs) return { kind: "doubtful", error };
    return { kind: "failed", error };
  }

  async #transaction(handler: (tx: Tx) => Promise<unknown>, progress: Phase): Promise<void> {
    const { database, fence, internals } = this.#options.environment;
    const { holding, registration } = this.#options.input;
    try {
      await database.transaction(async (tx) => {
        progress.phase = "work";
        const value = await handler(tx);
        const result = await resultText(registration, value);
        await strayErrorsMet();
        this.#options.checkStopped();
        this.#options.checkOwnership();
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
