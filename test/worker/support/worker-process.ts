/**
 * A worker as a process of its own, for tests that kill it. Settings come by the environment; it
 * prints "started", "run <job> <id>" for each handler, and "reached <failpoint>" where it stops.
 */

import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";
import { testLogger, untilAborted, writeEffect } from "./app-parts.ts";
import { runInProcess } from "../../support/worker-in-process.ts";

const env = (name: string): string => process.env[name] ?? "";

const payload = z.looseObject({});
const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 25 });
pool.on("error", () => undefined);

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

const worker = createWorker<PoolClient>(
  {
    database: pgDatabase(pool),
    databaseUrl: env("DATABASE_URL"),
    broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
    queues: { work: { concurrency: Number(env("CONCURRENCY") || "10") } },
    logger: testLogger,
    name: env("NAME") || "process",
    leaseMs: Number(env("LEASE_MS") || "15000"),
    graceMs: Number(env("GRACE_MS") || "5000"),
    ...(env("HOLD_MS") === "" ? {} : { holdMs: Number(env("HOLD_MS")) }),
  },
  {
    async failpoint(name) {
      if (name !== env("FAILPOINT")) return;
      console.log(`reached ${name}`);
      await untilAborted(new AbortController().signal);
    },
  },
);

worker.handleInTransaction(
  defineJob({ name: "effect", queue: "work", payload, retry }),
  async (job, tx) => {
    console.log(`run effect ${job.id}`);
    await writeEffect(tx, job);
  },
);
worker.handleInTransaction(
  defineJob({ name: "stuck", queue: "work", payload, retry }),
  async (job, tx) => {
    await writeEffect(tx, job);
    job.reportProgress({ done: 1 });
    console.log(`run stuck ${job.id}`);
    if (env("STUCK") !== "") await untilAborted(job.signal);
  },
);
worker.handle(defineJob({ name: "plain", queue: "work", payload, retry }), async (job) => {
  console.log(`run plain ${job.id}`);
  await job.transaction((tx) => writeEffect(tx, job));
});
worker.handleInTransaction(
  defineJob({ name: "strict", queue: "work", payload: z.strictObject({ n: z.int() }), retry }),
  (job, tx) => writeEffect(tx, job),
);
worker.handle(defineJob({ name: "poison", queue: "work", payload, retry }), () => {
  console.log("run poison");
  process.kill(process.pid, "SIGKILL");
});

await runInProcess(worker, stop.signal);
await pool.end();
console.log("stopped");
