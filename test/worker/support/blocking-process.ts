/**
 * A worker as a process of its own, whose handlers block its event loop until a file exists. It
 * prints "started", "run <job> <id>" for each handler, and its log as lines of JSON.
 */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { pino } from "pino";
import { z } from "zod";
import { writeEffect } from "./app-parts.ts";
import { runInProcess } from "../../support/worker-in-process.ts";

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
  logger: pino({ level: "info" }),
  name: env("NAME"),
  leaseMs: Number(env("LEASE_MS")),
  blockedMaxMs: Number(env("BLOCKED_MAX_MS") || "300000"),
  graceMs: 5_000,
});

/** Keeps this thread from anything else, without wearing out the processor. */
function blockUntilFileExists(path: string): void {
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(path)) Atomics.wait(never, 0, 0, 5);
}

/** The same in another process that is waited for: no step of JavaScript happens meanwhile. */
function blockInNativeCode(path: string): void {
  execFileSync("sh", ["-c", 'while [ ! -e "$1" ]; do sleep 0.05; done', "sh", path]);
}

const payload = z.looseObject({});

for (const [name, block] of [
  ["block", blockUntilFileExists],
  ["block.native", blockInNativeCode],
] as const) {
  worker.handleInTransaction(defineJob({ name, queue: "work", payload }), async (job, tx) => {
    await writeEffect(tx, job);
    console.log(`run ${name} ${job.id}`);
    if (env("UNTIL_FILE") !== "") block(env("UNTIL_FILE"));
  });
}

await runInProcess(worker, stop.signal);
await pool.end();
console.log("stopped");
