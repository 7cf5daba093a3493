/** The worker: a module for `waybill worker`, which runs what it exports as `worker`. */

import { setTimeout as delay } from "node:timers/promises";
import type { WorkerEnvironment } from "@waybill/cli";
import { createWorker, type Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { noted } from "./books.ts";
import { database } from "./database.ts";
import { required } from "./environment.ts";
import { billing, chargeInvoice, paymentsApi, postEntry, renderStatement } from "./jobs.ts";

const paymentsUrl = required("PAYMENTS_URL");
/** A posting is quick work. */
const postingMs = 20;

/** What all handlers note of a job, whichever it is. */
const entryOf = (job: {
  readonly id: string;
  readonly name: string;
  readonly attempt: number;
  readonly concurrencyKey: string | undefined;
}) => ({
  jobId: job.id,
  type: job.name,
  tenant: job.concurrencyKey ?? "",
  attempt: job.attempt,
});

/** `environment` holds what the command line and the environment say: URLs, logger, name. */
export function worker(environment: WorkerEnvironment): Worker<PoolClient> {
  const made = createWorker({
    ...environment,
    database,
    // Eight here are this process's own limit; those of the definition hold over all workers.
    queues: { [billing.name]: { concurrency: 8, define: billing } },
    dependencies: [paymentsApi],
  });

  made.handle(renderStatement, (job) =>
    noted(entryOf(job), async () => {
      await delay(job.payload.workMs, undefined, { signal: job.signal });
    }),
  );

  made.handle(chargeInvoice, (job) =>
    noted(entryOf(job), async () => {
      // A connection that is refused or reset is a transient failure: it counts for the breaker.
      const response = await fetch(`${paymentsUrl}/charges`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": job.id },
        body: JSON.stringify({ invoice: job.payload.invoice }),
        signal: job.signal,
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`The provider answered ${response.status}.`);
    }),
  );

  made.handle(postEntry, (job) => {
    const { account, entry, failsFirst } = job.payload;
    return noted({ ...entryOf(job), account, entry }, async () => {
      await delay(postingMs, undefined, { signal: job.signal });
      if (failsFirst && job.attempt === 1) throw new Error("The account is locked just now.");
    });
  });

  return made;
}
