/**
 * A worker as a process of its own, to be killed, frozen and stopped. Its options come as JSON. It
 * prints "started", "run <job> <id> <attempt>" for each handler, "refused <id> <code>" where a held
 * job may not write any more, its log, and "stopped"; the line "go" lets the held jobs go on.
 */

import { createInterface } from "node:readline";
import { RetryAfterError, WaybillError } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker, type Job, type WorkerOptions } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { pino } from "pino";
import { greedy, held, heldOnce, limited, sentinel, writeEffect } from "./jobs.ts";
import { runInProcess } from "../support/worker-in-process.ts";

/** Options that JSON can carry. */
export type WorkerProcessOptions = Omit<WorkerOptions<PoolClient>, "database" | "logger">;

const options = JSON.parse(process.argv[2] ?? "{}") as WorkerProcessOptions;
const pool = new Pool({ connectionString: options.databaseUrl, max: 15 });
pool.on("error", () => undefined);

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

const open = Promise.withResolvers<void>();
const commands = createInterface({ input: process.stdin });
commands.on("line", (line) => {
  if (line === "go") open.resolve();
});

const worker = createWorker<PoolClient>({
  ...options,
  database: pgDatabase(pool),
  logger: pino({ level: "info" }),
});

const says = (job: { name: string; id: string; attempt: number }): void =>
  console.log(`run ${job.name} ${job.id} ${job.attempt}`);

async function hold(job: Job<typeof held | typeof heldOnce, PoolClient>): Promise<void> {
  says(job);
  const aborted = Promise.withResolvers<void>();
  if (!job.payload.deaf) job.signal.addEventListener("abort", () => aborted.resolve());
  await Promise.race([open.promise, aborted.promise]);
  if (!job.payload.deaf) job.signal.throwIfAborted();
  try {
    await job.transaction((tx) => writeEffect(tx, job));
  } catch (error) {
    console.log(`refused ${job.id} ${WaybillError.is(error) ? error.code : String(error)}`);
    throw error;
  }
}

worker.handle(held, hold);
worker.handle(heldOnce, hold);
worker.handle(limited, async (job) => {
  says(job);
  if (job.attempt === 1) throw new RetryAfterError("rate limited", job.payload.pauseMs);
  await job.transaction((tx) => writeEffect(tx, job));
});
worker.handleInTransaction(greedy, async (job, tx) => {
  says(job);
  await writeEffect(tx, job);
  const until = performance.now() + job.payload.blockMs;
  while (performance.now() < until);
});
worker.handleInTransaction(sentinel, async (job, tx) => {
  says(job);
  await writeEffect(tx, job);
});

await runInProcess(worker, stop.signal);
commands.close();
await pool.end();
console.log("stopped");
