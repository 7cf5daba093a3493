import { type Logger, silentLogger } from "@waybill/core";

/** Writes one effect of a job into the ledger, which has no unique key: doubles can be counted. */
export async function writeEffect(
  tx: { query(text: string, values: unknown[]): Promise<unknown> },
  job: { readonly id: string; readonly attempt: number },
): Promise<void> {
  await tx.query("insert into effect (job_id, attempt) values ($1, $2)", [job.id, job.attempt]);
}

/** A logger that prints where a test is being looked into (WAYBILL_TEST_LOG=1). */
export const testLogger: Logger =
  process.env["WAYBILL_TEST_LOG"] === undefined
    ? silentLogger
    : {
        child: () => testLogger,
        debug: (fields, message) => console.log("debug", message, fields),
        info: (fields, message) => console.log("info", message, fields),
        warn: (fields, message) => console.log("warn", message, fields),
        error: (fields, message) => console.log("error", message, fields),
      };

/** Resolves when the signal has aborted: how handlers of tests work for a long time. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
}
