/** Jobs of every kind of work, and a worker that does it: what the rights of its logins have to allow. */

import {
  defineDependency,
  defineEvent,
  defineJob,
  defineQueue,
  defineTerminalEvent,
  NonRetryableError,
  RetryAfterError,
  silentLogger,
} from "@waybill/core";
import { type Database } from "@waybill/postgres";
import { createWorker, type Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { z } from "zod";

const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const payload = z.object({ note: z.string() });

/** Told at the end of {@link exported}. */
export const exportEnded = defineTerminalEvent("export.ended");
/** Has a subscription. */
export const ordered = defineEvent({ name: "order.placed", payload });
const provider = defineDependency({ name: "provider" });

/** Writes an effect and enqueues {@link follow} in one transaction. */
export const booked = defineJob({ name: "book", queue: "plain", payload, retry });
/** Enqueued by {@link booked}. */
export const follow = defineJob({ name: "follow", queue: "plain", payload, retry });
/** Fails once with the note in its message, then saves checkpoints, reports progress and gives a result. */
export const exported = defineJob({
  name: "export",
  queue: "plain",
  payload,
  checkpoint: payload,
  result: payload,
  retry,
  onTerminal: exportEnded,
});
/** Fails for good, with the note in its message. */
export const doomed = defineJob({ name: "doomed", queue: "plain", payload, retry });
/** In a governed, bounded queue with a dependency; is put off once. */
export const governed = defineJob({
  name: "govern",
  queue: "governed",
  payload,
  retry,
  dependsOn: ["provider"],
});

/** What {@link busyWorker} is made of. */
export interface BusyWorkerOptions {
  readonly database: Database<PoolClient>;
  readonly databaseUrl: string;
  readonly brokerUrl: string;
  readonly schema: string;
  readonly topology: "assert" | "check";
  /** Writes an effect, in the transaction of {@link booked}. */
  readonly effect: (tx: PoolClient, id: string) => Promise<unknown>;
  /** Enqueues {@link follow}, in the same transaction. */
  readonly follow: (tx: PoolClient) => Promise<unknown>;
}

/** Makes the worker; it does not run yet. */
export function busyWorker(options: BusyWorkerOptions): Worker<PoolClient> {
  const worker = createWorker<PoolClient>({
    database: options.database,
    databaseUrl: options.databaseUrl,
    broker: { url: options.brokerUrl, topology: options.topology },
    schema: options.schema,
    queues: {
      plain: { concurrency: 5 },
      governed: {
        concurrency: 5,
        define: defineQueue({
          name: "governed",
          keys: { concurrency: 2 },
          order: {},
          maxWaiting: { jobs: 1_000, perKey: 100 },
        }),
      },
    },
    dependencies: [provider],
    logger: silentLogger,
    name: "busy",
  });
  const putOff = new Set<string>();
  worker.handleInTransaction(booked, async (job, tx) => {
    await options.effect(tx, job.id);
    await options.follow(tx);
  });
  worker.handle(follow, () => undefined);
  worker.handle(exported, async (job) => {
    const note = job.payload.note;
    if (job.attempt === 1) throw new Error(`no luck with ${note}`);
    job.reportProgress({ stage: note, done: 1, total: 2 });
    await job.transaction((tx) => job.saveCheckpoint(tx, { note }));
    return { note };
  });
  worker.handle(doomed, (job) => {
    throw new NonRetryableError(`hopeless: ${job.payload.note}`);
  });
  worker.handle(governed, (job) => {
    if (putOff.has(job.id)) return;
    putOff.add(job.id);
    throw new RetryAfterError("not now", 10);
  });
  worker.on(exportEnded, { subscription: "mailer", retry }, () => undefined);
  worker.on(ordered, { subscription: "billing", retry }, (event) => {
    throw new NonRetryableError(`cannot bill ${event.payload.note}`);
  });
  return worker;
}
