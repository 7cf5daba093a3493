import type { EventDefinition, InputOf, JobDefinition, ResultOf } from "@waybill/core";
import { rehearsalOf, type Worker } from "@waybill/worker";
import { envelopeOf } from "./envelope-of.ts";
import { inlineTransaction } from "./inline-transaction.ts";

/** Options of {@link runHandler}. */
export interface RunHandlerOptions<Tx> {
  /** The test's transaction: all that the handler writes is in it, and gone with its rollback. */
  readonly tx: Tx;
  /** Number of the attempt that the handler sees. @default 1 */
  readonly attempt?: number | undefined;
  /** Id that the handler sees. @default a fresh one */
  readonly jobId?: string | undefined;
  /** @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** @default none */
  readonly correlationId?: string | undefined;
  /** @default none */
  readonly concurrencyKey?: string | undefined;
  /** Of an event: which of the worker's subscriptions; needed only where there are several. */
  readonly subscription?: string | undefined;
  /** What an earlier attempt is to have saved. @default none */
  readonly checkpoint?: unknown;
  /** Gets what the handler saves. */
  readonly onCheckpoint?: ((checkpoint: unknown) => void) | undefined;
  /** Gets what the handler reports, as often as it would be written. */
  readonly onProgress?: ((progress: ReportedProgress) => void) | undefined;
  /** Aborts the handler's signal: how it meets a cancel. */
  readonly signal?: AbortSignal | undefined;
}

/** Progress as it would be written; null for what the handler never said. */
export interface ReportedProgress {
  readonly stage: string | null;
  readonly done: number | null;
  readonly total: number | null;
}

/**
 * Runs one handler the way a worker does: the payload is checked by its schema, makes the round
 * trip through JSON, and is checked and parsed again; the result is checked; the signal aborts after
 * the definition's timeout. Nothing is enqueued or recorded about the job itself.
 *
 * @returns the handler's result after the round trip through JSON, undefined without a result schema
 * @throws what the handler throws, after what it wrote is undone
 * @throws PayloadError for a payload or result that its schema refuses
 * @throws ConfigError where the worker has no handler for it
 *
 * @example
 * await runHandler(worker, sendWelcome, { to: "ada@example.com" }, { tx });
 */
export async function runHandler<Tx, D extends JobDefinition | EventDefinition>(
  worker: Worker<Tx>,
  job: D,
  payload: InputOf<D["payload"]>,
  options: RunHandlerOptions<Tx>,
): Promise<D extends JobDefinition ? ResultOf<D> : void> {
  const rehearsal = rehearsalOf<Tx>(worker);
  const outcome = await rehearsal.run({
    envelope: await envelopeOf(rehearsal, job, payload, options),
    attempt: options.attempt ?? 1,
    transaction: inlineTransaction(rehearsal.database, options.tx),
    checkpoint: options.checkpoint === undefined ? undefined : JSON.stringify(options.checkpoint),
    onCheckpoint: (checkpoint) => options.onCheckpoint?.(JSON.parse(checkpoint)),
    onProgress: ({ stage, done, total }) => options.onProgress?.({ stage, done, total }),
    signal: options.signal,
  });
  if (!outcome.succeeded) throw outcome.error;
  const result: unknown = outcome.result === null ? undefined : JSON.parse(outcome.result);
  return result as D extends JobDefinition ? ResultOf<D> : void;
}
