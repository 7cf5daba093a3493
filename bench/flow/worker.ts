/** The worker of the measurements: a module for `waybill worker`. */

import { openSync, writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { WorkerEnvironment } from "@waybill/cli";
import { defineQueue } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker, type Worker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { nowUs } from "./clock.ts";
import { flowJob } from "./jobs.ts";
import type { WorkerPlan } from "./worker-plan.ts";

const plan = JSON.parse(process.env["FLOW_PLAN"] ?? "") as WorkerPlan;
const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: 2 });
pool.on("error", () => undefined);
/** Written to synchronously, so that what has happened is there after a SIGKILL. */
const log = openSync(plan.log, "a");
let runs = 0;

/** `environment` holds what the command line and the environment say: URLs, logger, name. */
export function worker(environment: WorkerEnvironment): Worker<PoolClient> {
  const { queue, types, concurrency, settings, logsAll } = plan;
  const made = createWorker({
    ...environment,
    database: pgDatabase(pool),
    queues: { [queue]: { concurrency, define: defineQueue({ name: queue, ...settings }) } },
    // A job may be in the hands of many workers that are killed.
    crashBudget: 100,
  });
  for (const type of types) {
    made.handle(flowJob(queue, type), async ({ payload, attempt, concurrencyKey }) => {
      const { n, ms = 0, failures = 0, at } = payload;
      const isLogged = logsAll || at !== undefined;
      const run = (runs += 1);
      if (isLogged) {
        const key = concurrencyKey ?? "";
        writeSync(log, `s ${run} ${nowUs()} ${at ?? 0} ${n} ${type} ${key}\n`);
      }
      if (ms > 0) await delay(ms);
      const fails = attempt <= failures;
      if (isLogged) writeSync(log, `e ${run} ${nowUs()} ${fails ? 0 : 1}\n`);
      if (fails) throw new Error("fails as the measurement wants it");
    });
  }
  return made;
}
