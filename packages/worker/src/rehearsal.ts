/**
 * Handlers without broker, claim or lease: what @waybill/testing runs. Everything from the
 * payload's text to the outcome is the real attempt's code; only who owns the job is settled.
 */

import {
  ConfigError,
  type Envelope,
  type KeyRing,
  type Logger,
  type ResolvedRetryPolicy,
} from "@waybill/core";
import {
  type Database,
  type JobFence,
  createJobFence,
  type ProgressReport,
} from "@waybill/postgres";
import { Attempt } from "./attempt.ts";
import { Batches } from "./batch/batches.ts";
import { noInternals } from "./internals.ts";
import type { Registration, Registry } from "./registry.ts";

interface Parts<Tx> {
  readonly registry: Registry<Tx>;
  readonly database: Database<Tx>;
  readonly schema: string;
  readonly logger: Logger;
  readonly encryption: KeyRing | undefined;
}

/** One attempt to rehearse. */
export interface RehearsalInput<Tx> {
  readonly envelope: Envelope;
  readonly attempt: number;
  /** Opens the transactions of the handler. */
  readonly transaction: Database<Tx>["transaction"];
  /**
   * Called first in the transaction that ends the job, for its fencing token; undefined: nothing is
   * recorded about the job.
   */
  readonly begin?: ((tx: Tx) => Promise<string>) | undefined;
  /** What an earlier attempt saved, as JSON text. */
  readonly checkpoint?: string | undefined;
  readonly onCheckpoint?: ((checkpoint: string) => void) | undefined;
  readonly onProgress?: ((report: ProgressReport) => void) | undefined;
  /** Its abort reaches the handler's signal. */
  readonly signal?: AbortSignal | undefined;
}

/** How a rehearsed attempt ended: with the handler's result as JSON text, or with what it threw. */
export type RehearsalOutcome =
  | { readonly succeeded: true; readonly result: string | null }
  | { readonly succeeded: false; readonly error: unknown };

/** A worker's handlers, for tests; see {@link rehearsalOf}. */
export interface Rehearsal<Tx> {
  readonly database: Database<Tx>;
  readonly schema: string;
  /** Keys that open encrypted payloads. */
  readonly encryption: KeyRing | undefined;
  /** Subscriptions of this worker that receive the event. */
  subscriptionsOf(event: string): readonly string[];
  /** The retry policy of the handler for this message; undefined where there is no handler. */
  policyOf(queue: string, type: string, version: number): ResolvedRetryPolicy | undefined;
  /** Runs the handler of the envelope. Never rejects for what the handler throws. */
  run(input: RehearsalInput<Tx>): Promise<RehearsalOutcome>;
}

const partsOf = new WeakMap<object, Parts<never>>();

/** Lets {@link rehearsalOf} see a worker's parts. */
export function makeRehearsable<Tx>(worker: object, parts: Parts<Tx>): void {
  partsOf.set(worker, parts as unknown as Parts<never>);
}

class WorkerRehearsal<Tx> implements Rehearsal<Tx> {
  readonly #parts: Parts<Tx>;
  readonly #fence: JobFence;
  /** Jobs that are rehearsed together go together: no others are waited for. */
  readonly #batches = new Batches<Tx>(() => false);

  constructor(parts: Parts<Tx>) {
    this.#parts = parts;
    this.#fence = createJobFence(parts.schema);
  }

  get database(): Database<Tx> {
    return this.#parts.database;
  }

  get schema(): string {
    return this.#parts.schema;
  }

  get encryption(): KeyRing | undefined {
    return this.#parts.encryption;
  }

  subscriptionsOf(event: string): readonly string[] {
    return this.#parts.registry.subscriptions
      .filter(({ events }) => events.includes(event))
      .map(({ subscription }) => subscription);
  }

  policyOf(queue: string, type: string, version: number): ResolvedRetryPolicy | undefined {
    return this.#parts.registry.find(queue, type, version)?.retry;
  }

  async run(input: RehearsalInput<Tx>): Promise<RehearsalOutcome> {
    const { envelope, begin } = input;
    const registration = this.#parts.registry.find(envelope.queue, envelope.type, envelope.version);
    if (registration === undefined) {
      throw new ConfigError("createWorker", [
        {
          path: envelope.type,
          message: `no handler is registered for version ${envelope.version} of this job`,
        },
      ]);
    }
    const owned = { id: envelope.id, queue: envelope.queue, token: "0" };
    const recorded: { result: string | null } = { result: null };
    const complete: JobFence["complete"] = async (executor, job, result) => {
      recorded.result = result;
      return begin === undefined || (await this.#fence.complete(executor, job, result));
    };
    // An attempt waits for a transaction that cannot begin; a test should hear of it at once.
    const refused = (error: unknown): void => attempt.abort(error);
    const attempt = new Attempt<Tx>(
      {
        database: this.#databaseOf(input, registration, owned, refused),
        fence: {
          guard: () => Promise.resolve(true),
          complete,
          saveCheckpoint: (_executor, _job, checkpoint) => {
            input.onCheckpoint?.(checkpoint);
            return Promise.resolve(true);
          },
        },
        logger: this.#parts.logger,
        internals: noInternals,
        abandonMs: 0,
        isStopped: () => false,
        readCheckpoint: () => Promise.resolve(input.checkpoint),
        progress: { write: (report) => Promise.resolve(input.onProgress?.(report)) },
        batches: this.#batches,
        encryption: this.#parts.encryption,
      },
      {
        envelope,
        attempt: input.attempt,
        isSuspect: false,
        owned,
        registration,
        holding: { begin: () => Promise.resolve(owned), end: () => undefined },
      },
    );
    const { signal } = input;
    const stop = (): void => attempt.abort(signal?.reason);
    if (signal?.aborted === true) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const outcome = await attempt.run();
    signal?.removeEventListener("abort", stop);
    switch (outcome.kind) {
      case "committed":
        return { succeeded: true, result: recorded.result };
      case "returned":
        await this.#end(input, owned, outcome.result);
        return { succeeded: true, result: outcome.result };
      case "failed":
      case "doubtful":
        return { succeeded: false, error: outcome.error };
    }
  }

  /** A transactional handler's transaction begins with the claim, so that a failure leaves nothing. */
  #databaseOf(
    { transaction, begin }: RehearsalInput<Tx>,
    registration: Registration<Tx>,
    owned: { token: string },
    refused: (error: unknown) => void,
  ): Database<Tx> {
    const claims = begin !== undefined && registration.run.kind === "transactional";
    return {
      executor: (tx) => this.#parts.database.executor(tx),
      transaction: async (work) => {
        let begun = false;
        try {
          return await transaction(async (tx) => {
            if (claims) owned.token = await begin(tx);
            begun = true;
            return await work(tx);
          });
        } catch (error) {
          if (!begun) refused(error);
          throw error;
        }
      },
    };
  }

  async #end(
    { transaction, begin }: RehearsalInput<Tx>,
    job: { readonly id: string; readonly queue: string },
    result: string | null,
  ): Promise<void> {
    if (begin === undefined) return;
    await transaction(async (tx) => {
      const token = await begin(tx);
      await this.#fence.complete(this.#parts.database.executor(tx), { ...job, token }, result);
    });
  }
}

/**
 * The handlers of a worker, to be run by tests. Internal: made for @waybill/testing.
 *
 * @throws ConfigError for anything that createWorker did not make
 */
export function rehearsalOf<Tx>(worker: object): Rehearsal<Tx> {
  const parts = partsOf.get(worker);
  if (parts === undefined) {
    throw new ConfigError("the test", [
      { path: "worker", message: "expected what createWorker of this very package returned" },
    ]);
  }
  return new WorkerRehearsal<Tx>(parts as unknown as Parts<Tx>);
}
