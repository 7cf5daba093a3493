/** A worker of a run as a process of its own. It notes the runs of its handlers in a file, see run-log.ts. */

import { NonRetryableError } from "@waybill/core";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { type Context, createWorker } from "@waybill/worker";
import { flushCompileCache } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import { Pool, type PoolClient } from "pg";
import { pino } from "pino";
import { failpointOf } from "./failpoint.ts";
import {
  call,
  type ChaosPayload,
  clash,
  doomed,
  limited,
  noted,
  ordered,
  poolSize,
  queues,
  retry,
  subscriptions,
  transfer,
} from "./jobs.ts";
import { openRunLog } from "./run-log.ts";

const env = (name: string): string => process.env[name] ?? "";
const name = env("NAME");
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: poolSize });
pool.on("error", () => undefined);
const database = pgDatabase<PoolClient>(pool);
const outbox = createOutbox({ database });
const log = openRunLog(env("RUNS"));
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
// Whoever is killed would leave no cache behind for its successor.
flushCompileCache();

const worker = createWorker<PoolClient>(
  {
    database,
    databaseUrl: env("DATABASE_URL"),
    broker: { url: env("RABBITMQ_URL") },
    queues,
    name,
    logger: pino({ level: env("LOG_LEVEL") }),
    leaseMs: Number(env("LEASE_MS")),
    graceMs: 3_000,
    // A job may be in the hands of many workers that are killed.
    crashBudget: 100,
  },
  {
    failpoint: failpointOf(process.env["FAILPOINT"], () => new Promise<void>(() => undefined)),
  },
);

type AnyContext = Context<string, ChaosPayload>;

/** Notes the start and the end of a run, and works as long as the payload says. */
async function run(job: AnyContext, queue: string, work: () => Promise<void>): Promise<void> {
  const ended = log.start({ id: job.id, queue, key: job.concurrencyKey ?? "" });
  let outcome: "done" | "failed" = "failed";
  try {
    await work();
    if (job.payload.ms > 0) await delay(job.payload.ms);
    if (job.attempt <= job.payload.failures) throw new Error("fails as the run wants it");
    outcome = "done";
  } finally {
    ended(job.signal.aborted ? "lost" : outcome);
  }
}

async function writeEffect(tx: PoolClient, job: AnyContext, queue: string): Promise<void> {
  await tx.query("insert into effect values ($1, $2, $3, $4)", [job.id, queue, job.attempt, name]);
}

worker.handleInTransaction(transfer, (job, tx) =>
  run(job, "ledger", async () => {
    await writeEffect(tx, job, "ledger");
    const { secret, children } = job.payload;
    const child = { ms: 0, failures: 0, children: 0, secret };
    for (let n = 0; n < children; n += 1) {
      const { jobId } = await outbox.enqueue(tx, transfer, child);
      await tx.query("insert into business values ($1, 'ledger', 'transfer', $2)", [jobId, job.id]);
    }
  }),
);
worker.handleInTransaction(clash, (job, tx) =>
  run(job, "ledger", async () => {
    await writeEffect(tx, job, "ledger");
    if (job.attempt > job.payload.failures) return;
    for (let n = 0; n < 2; n += 1) {
      await tx.query("insert into sealed values ($1)", [`${job.payload.secret} ${job.id}`]);
    }
  }),
);
worker.handleInTransaction(doomed, (job, tx) =>
  run(job, "ledger", async () => {
    await writeEffect(tx, job, "ledger");
    throw new NonRetryableError("doomed as the run wants it");
  }),
);
worker.handle(call, (job) =>
  run(job, "calls", async () => {
    log.called(job.id);
  }),
);
worker.handleInTransaction(limited, (job, tx) =>
  run(job, "limited", () => writeEffect(tx, job, "limited")),
);
worker.handleInTransaction(ordered, (job, tx) =>
  run(job, "ordered", () => writeEffect(tx, job, "ordered")),
);
for (const subscription of subscriptions) {
  worker.on(noted, { subscription, retry }, (event, tx) =>
    run(event, subscription, () => writeEffect(tx, event, subscription)),
  );
}

await worker.run({ signal: stop.signal });
await pool.end();
