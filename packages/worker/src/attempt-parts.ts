/** What an attempt is made of, and what comes of it. */

import type { Envelope, KeyRing, Logger } from "@waybill/core";
import type { Database, JobFence, JobRef, OwnedJob } from "@waybill/postgres";
import type { Batches } from "./batch/batches.ts";
import type { Internals } from "./internals.ts";
import type { ProgressWriter } from "./progress.ts";
import type { Registration } from "./registry.ts";

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
  readonly batches: Pick<Batches<Tx>, "reserve">;
  /** Opens encrypted payloads. */
  readonly encryption: KeyRing | undefined;
}

/** A claimed job with its handler. */
export interface AttemptInput<Tx> {
  readonly envelope: Envelope;
  readonly owned: OwnedJob;
  readonly attempt: number;
  /** The job may be what kills workers; see JobStarts. */
  readonly isSuspect: boolean;
  readonly registration: Registration<Tx>;
  /** Around the writing of the job's end; see Holding. */
  readonly holding: { begin(): Promise<OwnedJob>; end(): void };
}
