/** The worker of the measurement: a module for `waybill worker`. */

import { setTimeout as delay } from "node:timers/promises";
import type { WorkerEnvironment } from "@waybill/cli";
import { pgDatabase } from "@waybill/postgres";
import { createWorker, type Worker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { waitForWord } from "./jobs.ts";

const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: 5 });
pool.on("error", () => undefined);
const { LEASE_MS: leaseMs, HOLD_MS: holdMs } = process.env;

/** Rounds that are over for this worker. */
const over = new Set<number>();

/** One look for all jobs of this worker. */
async function listenForWords(): Promise<never> {
  for (;;) {
    await delay(100);
    const found = await pool
      .query<{ round: number }>("select round from word where worker_pid = $1", [process.pid])
      .catch(() => ({ rows: [] }));
    for (const { round } of found.rows) over.add(round);
  }
}

/** `environment` holds what the command line and the environment say: URLs, logger, name. */
export function worker(environment: WorkerEnvironment): Worker<PoolClient> {
  void listenForWords();
  const made = createWorker({
    ...environment,
    database: pgDatabase(pool),
    queues: { takeover: { concurrency: 100 } },
    leaseMs: leaseMs === undefined ? undefined : Number(leaseMs),
    holdMs: holdMs === undefined ? undefined : Number(holdMs),
  });
  made.handle(waitForWord, async (job) => {
    // Does not listen to its signal: a handler that writes after it has lost its job is what the
    // fencing token is for.
    while (!over.has(job.payload.round)) await delay(50);
    try {
      await job.transaction((tx) =>
        tx.query("insert into effect (job_id, worker_pid) values ($1, $2)", [job.id, process.pid]),
      );
    } catch (error) {
      await pool.query("insert into refusal (job_id, worker_pid, reason) values ($1, $2, $3)", [
        job.id,
        process.pid,
        String(error),
      ]);
      throw error;
    }
  });
  return made;
}
