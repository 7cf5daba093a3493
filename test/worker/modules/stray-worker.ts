/**
 * A worker as a process of its own, whose handlers let errors stray. It prints "started", and
 * "rejected <message>" where run() rejects; then it exits with code 1. A job "neighbour" ends after
 * the line "finish" on stdin; the line "stray" throws outside any job. With LISTENER set, so does a
 * listener of the application at the end of each attempt.
 */

import { subscribe } from "node:diagnostics_channel";
import { createInterface } from "node:readline";
import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";
import { testLogger, untilAborted, writeEffect } from "../support/app-parts.ts";
import { runInProcess } from "../../support/worker-in-process.ts";

const env = (name: string): string => process.env[name] ?? "";

const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 25 });
pool.on("error", () => undefined);
const finish = Promise.withResolvers<void>();
createInterface({ input: process.stdin }).on("line", (line) => {
  if (line === "finish") finish.resolve();
  else setImmediate(stray);
});

function stray(): never {
  throw new Error("stray");
}

if (env("LISTENER") !== "") subscribe("waybill:job:attempt", stray);

const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const base = { queue: "work", payload: z.looseObject({}), retry } as const;
const never = (): AbortSignal => new AbortController().signal;

const worker = createWorker<PoolClient>({
  database: pgDatabase(pool),
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { work: { concurrency: 10 } },
  logger: testLogger,
  name: "stray",
  graceMs: 60_000,
  abandonMs: 100,
});
worker.handle(defineJob({ ...base, name: "rejection" }), ({ attempt }) => {
  if (attempt === 1) void Promise.reject(new Error("stray"));
});
worker.handleInTransaction(defineJob({ ...base, name: "transaction" }), async (job, tx) => {
  await writeEffect(tx, job);
  if (job.attempt === 1) void Promise.reject(new Error("stray"));
});
worker.handle(defineJob({ ...base, name: "timer" }), async ({ attempt, signal }) => {
  if (attempt > 1) return;
  setTimeout(stray, 5);
  await untilAborted(signal);
});
worker.handle(defineJob({ ...base, name: "deaf" }), async ({ attempt }) => {
  if (attempt > 1) return;
  setTimeout(stray, 5);
  await untilAborted(never());
});
worker.handle(
  defineJob({ ...base, name: "listener", timeoutMs: 100 }),
  async ({ attempt, signal }) => {
    if (attempt > 1) return;
    signal.addEventListener("abort", stray);
    await untilAborted(never());
  },
);
worker.handle(defineJob({ ...base, name: "neighbour" }), async (job) => {
  console.log(`run neighbour ${job.id}`);
  await finish.promise;
  await job.transaction((tx) => writeEffect(tx, job));
});

try {
  await runInProcess(worker, never());
} catch (error) {
  console.log(`rejected ${String(error)}`);
  process.exitCode = 1;
}
await pool.end();
process.stdin.destroy();
