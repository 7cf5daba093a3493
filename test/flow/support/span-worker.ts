/** A worker as a process of its own whose handlers write their spans; killed by tests. */

import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { runInProcess } from "../../support/worker-in-process.ts";
import { testLogger } from "../../worker/support/app-parts.ts";
import { handleSpans } from "./spans.ts";

const env = (name: string): string => process.env[name] ?? "";
const concurrency = Number(env("CONCURRENCY") || "6");
const pool = new Pool({ connectionString: env("DATABASE_URL"), max: concurrency });
pool.on("error", () => undefined);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

const worker = createWorker<PoolClient>({
  database: pgDatabase(pool),
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { work: { concurrency } },
  logger: testLogger,
  name: `worker ${process.pid}`,
});
handleSpans(worker, pool);
await runInProcess(worker, stop.signal);
await pool.end();
