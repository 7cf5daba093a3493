/** The jobs of the matrix and their handlers: in the victim's process and in that of the test. */

import { setTimeout as delay } from "node:timers/promises";
import { defineJob, defineQueue, NonRetryableError, type QueueDefinition } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { z } from "zod";
import { writeEffect } from "../../worker/support/app-parts.ts";

/** A governed queue: its jobs go through slots and the backlog. */
export const fair: QueueDefinition = defineQueue({
  name: "fair",
  keys: { concurrency: 2 },
  order: {},
});

const retry = { maxAttempts: 6, initialDelayMs: 20, maxDelayMs: 100 } as const;
const payload = z.object({ failures: z.int().optional(), ms: z.int().optional() });

/** What a worker of the matrix consumes; small, so that jobs are on their way in every state. */
export const queues = {
  work: { concurrency: 5 },
  fair: { concurrency: 5, define: fair },
} as const;

/** Milliseconds after which a job goes on without its delivery; the load has one that runs longer. */
export const holdMs = 1_000;

/** Gives a worker the handlers. */
export function handleAll(worker: Worker<PoolClient>): void {
  for (const [name, queue] of [
    ["effect", "work"],
    ["turn", "fair"],
  ] as const) {
    worker.handleInTransaction(defineJob({ name, queue, payload, retry }), async (job, tx) => {
      await writeEffect(tx, job);
      if (job.payload.ms !== undefined) await delay(job.payload.ms);
      if (job.attempt <= (job.payload.failures ?? 0)) throw new Error("after the effect");
    });
  }
  worker.handle(defineJob({ name: "plain", queue: "work", payload, retry }), async (job) => {
    await job.transaction((tx) => writeEffect(tx, job));
  });
  worker.handle(defineJob({ name: "doomed", queue: "work", payload, retry }), () => {
    throw new NonRetryableError("never");
  });
}
