import type { InputOf, JobDefinition, ResultOf } from "@waybill/core";
import type { Database } from "@waybill/postgres";
import { rehearsalOf, type Worker } from "@waybill/worker";
import { envelopeOf } from "./envelope-of.ts";
import { inlineTransaction } from "./inline-transaction.ts";

/** Options of {@link runBatch}. */
export interface RunBatchOptions<Tx> {
  /** The test's transaction: all that the handler writes is in it, and gone with its rollback. */
  readonly tx: Tx;
  /** Number of the attempt that the handler sees in each job. @default 1 */
  readonly attempt?: number | undefined;
  /** Aborts the signal of each job: how the batch meets a shutdown. */
  readonly signal?: AbortSignal | undefined;
}

/** One after another: savepoints of one connection that overlap would undo each other's writes. */
function inTurn<Tx>(transaction: Database<Tx>["transaction"]): Database<Tx>["transaction"] {
  let last: Promise<unknown> = Promise.resolve();
  return async (work) => {
    const next = last.then(() => transaction(work));
    last = next.catch(() => undefined);
    return await next;
  };
}

/**
 * Runs a batch handler the way a worker does, with a job for each payload; more payloads than
 * `maxJobs` make several batches. Otherwise like `runHandler`. The jobs' transactions follow each
 * other here, so one that is opened inside another would wait for ever.
 *
 * @returns the outcome of each job, in the order of the payloads: its result after the round trip
 *   through JSON, or what failed it
 * @throws PayloadError for a payload that its schema refuses
 * @throws ConfigError where the worker has no handler for it
 *
 * @example
 * const [first, second] = await runBatch(worker, indexProduct, [{ sku: "a" }, { sku: "b" }], { tx });
 */
export async function runBatch<Tx, J extends JobDefinition>(
  worker: Worker<Tx>,
  job: J,
  payloads: readonly InputOf<J["payload"]>[],
  options: RunBatchOptions<Tx>,
): Promise<readonly PromiseSettledResult<ResultOf<J>>[]> {
  const rehearsal = rehearsalOf<Tx>(worker);
  const transaction = inTurn(inlineTransaction(rehearsal.database, options.tx));
  const envelopes = await Promise.all(
    payloads.map((payload) => envelopeOf(rehearsal, job, payload, {})),
  );
  const outcomes = await Promise.all(
    // Begun in one turn of the event loop, so that they go together.
    envelopes.map((envelope) =>
      rehearsal.run({
        envelope,
        attempt: options.attempt ?? 1,
        transaction,
        signal: options.signal,
      }),
    ),
  );
  return outcomes.map((outcome) => {
    if (!outcome.succeeded) return { status: "rejected", reason: outcome.error };
    const result: unknown = outcome.result === null ? undefined : JSON.parse(outcome.result);
    return { status: "fulfilled", value: result as ResultOf<J> };
  });
}
