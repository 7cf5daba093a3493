/** The worker: a module for `waybill worker`, which runs what it exports as `worker`. */

import { setTimeout as delay } from "node:timers/promises";
import type { WorkerEnvironment } from "@waybill/cli";
import { NonRetryableError } from "@waybill/core";
import { createWorker, type Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { database, pool } from "./database.ts";
import { required } from "./environment.ts";
import { exportEnded, exportSales, rowsOfStep } from "./jobs.ts";
import { signWebhook } from "./signature.ts";

const webhookUrl = required("WEBHOOK_URL");
const webhookSecret = Buffer.from(required("WEBHOOK_SECRET"), "base64");
/** Milliseconds between two steps, so that there is something to watch. */
const pauseMs = Number(process.env["PAUSE_MS"] ?? 0);

/** `environment` holds what the command line and the environment say: URLs, logger, name. */
export function worker(environment: WorkerEnvironment): Worker<PoolClient> {
  const made = createWorker({
    ...environment,
    database,
    queues: { exports: { concurrency: 4 }, "export-webhooks": { concurrency: 4 } },
    // A delivery is held for this long. An export takes longer: its lease protects it then.
    holdMs: 2_000,
    // An export of hours may outlive more workers than three without being what kills them.
    crashBudget: 20,
  });

  made.handle(exportSales, async (job) => {
    const { exportId, rows: total } = job.payload;
    let { lastSaleId, rows } = job.checkpoint ?? { lastSaleId: 0, rows: 0 };
    await pool.query(
      "insert into export_start (export_id, worker_pid, from_rows) values ($1, $2, $3)",
      [exportId, process.pid, rows],
    );
    for (;;) {
      // Aborted by a cancel, by a worker that must stop, or by the loss of the job.
      job.signal.throwIfAborted();
      const written = await job.transaction(async (tx) => {
        const step = await tx.query<{ sale_id: string }>(
          `insert into export_line (export_id, sale_id, line)
           select $1, s.id, concat_ws(',', s.id, s.customer, s.amount_cents, s.sold_at)
           from sale as s
           where s.id > $2
           order by s.id
           limit $3
           returning sale_id`,
          [exportId, lastSaleId, rowsOfStep],
        );
        if (step.rows.length === 0) return 0;
        lastSaleId = Number(step.rows.at(-1)?.sale_id);
        rows += step.rows.length;
        // Both are committed, or neither: no line is doubled, and none is missing.
        await job.saveCheckpoint(tx, { lastSaleId, rows });
        return step.rows.length;
      });
      if (written === 0) return { rows };
      job.reportProgress({ stage: "writing lines", done: Math.min(rows, total), total });
      await delay(pauseMs, undefined, { signal: job.signal });
    }
  });

  // The event is published in the transaction that ends the job, whichever way it ends. The call
  // itself happens at least once; its id lets the receiver tell a second call from news.
  made.on(exportEnded, { subscription: "export-webhooks" }, async (event) => {
    const body = JSON.stringify(event.payload);
    const response = await fetch(webhookUrl, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...signWebhook(webhookSecret, event.id, body),
      },
      body,
      // A receiver that was taken over could lead the call, and its signature, anywhere else.
      redirect: "error",
      signal: AbortSignal.any([event.signal, AbortSignal.timeout(10_000)]),
    });
    await response.body?.cancel();
    if (response.ok) return;
    const fact = `The receiver answered ${response.status}.`;
    throw response.status < 500 && response.status !== 429
      ? new NonRetryableError(fact)
      : new Error(fact);
  });

  return made;
}
