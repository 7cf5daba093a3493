/** The worker: a module for `waybill worker`, which runs what it exports as `worker`. */

import { NonRetryableError, RetryAfterError } from "@waybill/core";
import type { WorkerEnvironment } from "@waybill/cli";
import { createWorker, type Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { database } from "./database.ts";
import { required } from "./environment.ts";
import { deliverWebhook, indexWebhook } from "./jobs.ts";

const endpointUrl = required("ENDPOINT_URL");

/** `environment` holds what the command line and the environment say: URLs, logger, name. */
export function worker(environment: WorkerEnvironment): Worker<PoolClient> {
  const made = createWorker({
    ...environment,
    database,
    queues: { index: { concurrency: 10 }, deliver: { concurrency: 20 } },
  });

  // What this handler writes on `tx` is committed together with the fact that the job succeeded. So
  // it happens once, however often the message comes and whichever process dies.
  made.handleInTransaction(indexWebhook, async (job, tx) => {
    const { deliveryId, event, repository } = job.payload;
    await tx.query("insert into index_entry (job_id, delivery_id) values ($1, $2)", [
      job.id,
      deliveryId,
    ]);
    await tx.query(
      `insert into repository_counter (repository, event, events) values ($1, $2, 1)
       on conflict (repository, event) do update set events = repository_counter.events + 1`,
      [repository, event],
    );
  });

  // An HTTP call cannot be part of a transaction: it happens at least once. The job's id goes along,
  // so that the receiver can tell a second call from a second event.
  made.handle(deliverWebhook, async (job) => {
    const { deliveryId, event, body } = job.payload;
    const response = await fetch(endpointUrl, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "idempotency-key": job.id,
        "x-github-delivery": deliveryId,
        "x-github-event": event,
      },
      body: JSON.stringify(body),
      // Aborts when the job's timeoutMs is over, when it is cancelled, and when the worker must stop.
      signal: job.signal,
    });
    await response.body?.cancel();
    if (response.ok) return;

    const fact = `The endpoint answered ${response.status} ${response.statusText}.`;
    if (response.status === 429) {
      const seconds = Number(response.headers.get("retry-after") ?? 1);
      throw new RetryAfterError(fact, seconds * 1_000);
    }
    // Any other 4xx will be the same next time; a 5xx may not.
    if (response.status < 500) throw new NonRetryableError(fact);
    throw new Error(fact);
  });

  return made;
}
