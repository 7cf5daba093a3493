/**
 * A worker as a process of its own, for tests of clocks. It prints "started", and for each handler
 * "run <job> <id> at <its own clock>"; a job "long" ends after the line "finish" on stdin.
 */

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
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
const finish = Promise.withResolvers<void>();
createInterface({ input: process.stdin }).once("line", () => finish.resolve());

const job = { queue: "work", payload: z.looseObject({}), timeoutMs: 0 } as const;
const retry = { maxAttempts: 3, initialDelayMs: 3_000, jitter: "none" } as const;
const effect = defineJob({ ...job, name: "effect" });
const flaky = defineJob({ ...job, name: "flaky", retry });
const long = defineJob({ ...job, name: "long", retry });
const say = (name: string, id: string): void => console.log(`run ${name} ${id} at ${Date.now()}`);

const worker = createWorker<PoolClient>({
  database: pgDatabase(pool),
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { work: { concurrency: 10 } },
  logger: testLogger,
  name: "timed",
  leaseMs: Number(env("LEASE_MS")),
  // Each jump of the database's clock ends all leases at once, which counts as a crash of their jobs.
  crashBudget: 20,
});
worker.handleInTransaction(effect, async ({ id, attempt }, tx) => {
  say("effect", id);
  await writeEffect(tx, { id, attempt });
});
worker.handleInTransaction(flaky, async ({ id, attempt }, tx) => {
  say("flaky", id);
  if (attempt === 1) throw new Error("the first attempt fails");
  await writeEffect(tx, { id, attempt });
});
worker.handle(long, async (running) => {
  say("long", running.id);
  await Promise.race([finish.promise, untilAborted(running.signal)]);
  running.signal.throwIfAborted();
  await running.transaction((tx) => writeEffect(tx, running));
});

await runInProcess(worker, stop.signal);
await pool.end();
process.stdin.destroy();
