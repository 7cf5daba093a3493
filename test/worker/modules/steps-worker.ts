/**
 * A worker as a process of its own that runs jobs of many steps, each a transaction with an effect and
 * a checkpoint. Settings come by the environment; it prints "started", "<job> from <step>" for each
 * attempt, and what became of what it tried too late.
 */

import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { defineJob, WaybillError } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { Pool, type PoolClient } from "pg";
import { z } from "zod";
import { testLogger } from "../support/app-parts.ts";
import { runInProcess } from "../../support/worker-in-process.ts";

const env = (name: string): string => process.env[name] ?? "";
const numberOf = (name: string, otherwise: number): number => Number(env(name) || otherwise);

/** Steps of this process after which it kills itself, and where within the step. */
const killAfter = numberOf("KILL_AFTER", Number.POSITIVE_INFINITY);
const killPlace = env("KILL_PLACE");
/** The step before which it waits for the line "go" on stdin. */
const waitAt = numberOf("WAIT_AT", -1);
const name = env("NAME") || "steps";

const pool = new Pool({ connectionString: env("DATABASE_URL"), max: 25 });
pool.on("error", () => undefined);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
const go = Promise.withResolvers<void>();
createInterface({ input: process.stdin }).once("line", () => go.resolve());

const database = pgDatabase(pool);
const worker = createWorker<PoolClient>({
  database,
  databaseUrl: env("DATABASE_URL"),
  broker: { url: env("BROKER_URL"), prefix: env("PREFIX") },
  queues: { work: { concurrency: numberOf("CONCURRENCY", 10) } },
  logger: testLogger,
  name,
  leaseMs: numberOf("LEASE_MS", 15_000),
  graceMs: numberOf("GRACE_MS", 5_000),
  holdMs: numberOf("HOLD_MS", 60_000),
  crashBudget: 100,
});

const steps = defineJob({
  name: "steps",
  queue: "work",
  payload: z.object({ steps: z.int(), pauseMs: z.int().default(0) }),
  checkpoint: z.object({ done: z.int() }),
  result: z.object({ by: z.string() }),
  retry: { maxAttempts: 1 },
  timeoutMs: 0,
});

let stepsHere = 0;
const killAt = (place: string): void => {
  if (stepsHere >= killAfter && killPlace === place) process.kill(process.pid, "SIGKILL");
};

/** Tries what an attempt may not do any more, and says what it was told. */
async function say(what: string, work: () => Promise<unknown>): Promise<void> {
  const outcome = await work().then(
    () => "done",
    (error: unknown) => (error instanceof WaybillError ? error.code : String(error)),
  );
  console.log(`late ${what}: ${outcome}`);
}

worker.handle(steps, async (job) => {
  const from = job.checkpoint?.done ?? 0;
  console.log(`${job.id} from ${from}`);
  /** Resolves to true where the test wants no further step. */
  const write = async (tx: PoolClient, step: number): Promise<boolean> => {
    const { rows } = await tx.query<{ told: boolean }>(
      "insert into step_effect (job_id, step, worker) values ($1, $2, $3) returning exists (select from step_end) as told",
      [job.id, step, name],
    );
    return rows[0]?.told === true;
  };
  for (let step = from; step < job.payload.steps; step += 1) {
    job.signal.throwIfAborted();
    if (step === waitAt) {
      console.log(`at step ${step}`);
      await go.promise;
      await say("transaction", () => job.transaction((tx) => write(tx, step)));
      await say("checkpoint", () =>
        database.transaction((tx) => job.saveCheckpoint(tx, { done: 1 })),
      );
      job.reportProgress({ done: 1, total: job.payload.steps });
      return { by: name };
    }
    stepsHere += 1;
    killAt("before");
    const told = await job.transaction(async (tx) => {
      const last = await write(tx, step);
      killAt("effect");
      await job.saveCheckpoint(tx, { done: step + 1 });
      killAt("checkpoint");
      return last;
    });
    killAt("commit");
    if (told) break;
    job.reportProgress({ done: step + 1, total: job.payload.steps });
    // A time to be interrupted in, and not one that any test waits for.
    if (job.payload.pauseMs > 0) await delay(job.payload.pauseMs);
  }
  return { by: name };
});

await runInProcess(worker, stop.signal);
await pool.end();
process.stdin.destroy();
console.log("stopped");
