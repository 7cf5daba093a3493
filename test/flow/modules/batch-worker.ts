/**
 * A worker as a process of its own, whose handlers take batches. It prints "started", and
 * "batch <job> <number of jobs>" for each batch. A batch of "stuck" stops after its effects where
 * STUCK is set; one of "killer" with a payload that says so kills the process; one of "stray" throws
 * outside its promise in its first attempt.
 */

import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { type BatchedJob, createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";
import { runInProcess } from "../../support/worker-in-process.ts";
import { testLogger, untilAborted, writeEffect } from "../../worker/support/app-parts.ts";

const env = (name: string): string => process.env[name] ?? "";
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 25 });
pool.on("error", () => undefined);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

const worker = createWorker<PoolClient>({
  database: pgDatabase(pool),
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { work: { concurrency: 10 } },
  logger: testLogger,
  name: "batch",
});
const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const base = { queue: "work", payload: z.looseObject({ kill: z.boolean().optional() }), retry };
const stuck = defineJob({ ...base, name: "stuck" });

async function writeEffects(
  jobs: readonly Pick<BatchedJob<typeof stuck, PoolClient>, "id" | "attempt" | "transaction">[],
): Promise<void> {
  for (const job of jobs) await job.transaction((tx) => writeEffect(tx, job));
}

worker.handleBatch(stuck, { maxJobs: 5, maxWaitMs: 5_000 }, async (jobs, signal) => {
  console.log(`batch stuck ${jobs.length}`);
  if (env("STUCK") !== "") await untilAborted(signal);
  await writeEffects(jobs);
});
worker.handleBatch(
  defineJob({ ...base, name: "killer" }),
  { maxJobs: 7, maxWaitMs: 5_000 },
  async (jobs) => {
    console.log(`batch killer ${jobs.length}`);
    if (jobs.some(({ payload }) => payload.kill === true)) process.kill(process.pid, "SIGKILL");
    await writeEffects(jobs);
  },
);
worker.handleBatch(
  defineJob({ ...base, name: "stray" }),
  { maxJobs: 3, maxWaitMs: 5_000 },
  async (jobs, signal) => {
    const [first] = jobs;
    if (first === undefined || first.attempt > 1) return;
    first.succeed();
    setTimeout(() => {
      throw new Error("stray");
    }, 5);
    await untilAborted(signal);
  },
);

await runInProcess(worker, stop.signal);
await pool.end();
