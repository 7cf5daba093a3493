/** A worker of the whole line as a process of its own, to be killed and frozen; settings by the environment. */

import { NonRetryableError, silentLogger } from "@waybill/core";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { doomed, effect, plain, queue } from "./jobs.ts";

const env = (name: string): string => process.env[name] ?? "";
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 12 });
pool.on("error", () => undefined);
const database = pgDatabase<PoolClient>(pool);
const outbox = createOutbox({ database });
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

const worker = createWorker<PoolClient>({
  database,
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { [queue]: { concurrency: 10 } },
  logger: silentLogger,
  name: env("NAME"),
  leaseMs: 1_500,
  // More than one job can have of the kills of a test.
  crashBudget: 50,
});

const note = "insert into effect values ($1, $2, $3)";

worker.handleInTransaction(effect, async (job, tx) => {
  await tx.query(note, [job.id, "effect", job.attempt]);
  for (let n = 0; n < job.payload.children; n += 1) {
    const { jobId } = await outbox.enqueue(tx, effect, { failures: 0, children: 0 });
    await tx.query("insert into business values ($1, 'effect')", [jobId]);
  }
  if (job.attempt <= job.payload.failures) throw new Error("after the effect");
});
worker.handle(plain, (job) =>
  job.transaction(async (tx) => {
    await tx.query(note, [job.id, "plain", job.attempt]);
  }),
);
worker.handle(doomed, () => {
  throw new NonRetryableError("never");
});

const running = worker.run({ signal: stop.signal });
console.log("ready");
await running;
await pool.end();
