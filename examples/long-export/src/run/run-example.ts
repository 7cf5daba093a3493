import { randomUUID } from "node:crypto";
import { createJobs, createOutbox, type Jobs, pgDatabase, pgListener } from "@waybill/postgres";
import { Client, type PoolClient } from "pg";
import { createChildren } from "../../../../scripts/stage/children.ts";
import { findServices, type Ground, prepareGround } from "../../../../scripts/stage/ground.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { exportSales, rowsOfStep } from "../jobs.ts";
import { type Cast, startCast } from "./cast.ts";
import { type Gates, shutGates } from "./gates.ts";
import { ledgerOf } from "./ledger.ts";
import type { ExampleOptions } from "./options.ts";

interface Stage {
  readonly options: ExampleOptions;
  readonly ground: Ground;
  readonly cast: Cast;
  readonly jobs: Jobs<PoolClient>;
  readonly screen: Screen;
  readonly signal: AbortSignal;
}

/** How long an export may take from one gate to the next. */
function patience({ options, signal }: Stage): {
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
} {
  return { deadlineMs: 60_000 + options.rows, signal };
}

interface Asked {
  readonly exportId: string;
  readonly jobId: string;
}

/** What the service does when a user asks for an export. */
async function ask({ ground, options }: Stage): Promise<Asked> {
  const database = pgDatabase<PoolClient>(ground.pool);
  const outbox = createOutbox({ database });
  const exportId = randomUUID();
  return await database.transaction(async (tx) => {
    const { jobId } = await outbox.enqueue(tx, exportSales, { exportId, rows: options.rows });
    await tx.query("insert into export (id, job_id) values ($1, $2)", [exportId, jobId]);
    return { exportId, jobId };
  });
}

async function pidOfOwner({ ground }: Stage, jobId: string): Promise<number | undefined> {
  const found = await ground.pool.query<{ pid: number }>(
    `select w.pid
     from waybill.job as j
     join waybill.worker as w on w.id = j.owner
     where j.id = $1 and j.state = 'running' and waybill.worker_alive(w.id)`,
    [jobId],
  );
  return found.rows[0]?.pid;
}

/** Shows how far an export is until it ends, and resolves to the state that it ends in. */
async function follow({ jobs, screen, options, signal }: Stage, jobId: string): Promise<string> {
  let state = "queued";
  for await (const job of jobs.watch(jobId, { signal })) {
    state = job.state;
    const { done, total, percent } = job.progress ?? {};
    screen.progress(
      `export: ${done ?? 0} of ${total ?? options.rows} rows (${percent ?? 0} %), ${state}`,
      (percent ?? 0) / 100,
    );
  }
  screen.endProgress();
  return state;
}

/** Kills the worker at each gate, in the middle of a step. */
async function killAtGates(stage: Stage, gates: Gates, jobId: string): Promise<void> {
  const { cast, screen, options } = stage;
  for (let kills = 1; kills <= options.kills; kills += 1) {
    await gates.reached(patience(stage));
    const pid = await pidOfOwner(stage, jobId);
    if (pid === undefined) throw new Error("The export waits, and no worker runs it.");
    await cast.killWorker(pid);
    screen.event(
      `kill ${kills}: worker process ${pid} killed with SIGKILL in the middle of a step`,
    );
    await gates.open();
  }
}

async function runAndKill(
  stage: Stage,
): Promise<{ readonly line: string; readonly good: boolean }> {
  const { ground, cast, jobs, screen, options } = stage;
  screen.heading("An export whose workers are killed");
  const places = Array.from({ length: options.kills }, (_, n) =>
    Math.floor(((n + 1) * options.rows) / (options.kills + 1)),
  );
  await using gates = await shutGates(ground.pool, places);
  const asked = await ask(stage);
  const [state] = await Promise.all([
    follow(stage, asked.jobId),
    killAtGates(stage, gates, asked.jobId),
  ]);
  const result = await jobs.result(asked.jobId, { job: exportSales });
  screen.event(`the job has ${state}, its result is ${JSON.stringify(result)}`);
  screen.event(`signed webhook received: ${await cast.webhook(asked.jobId)}`);
  const { rows, doubled, missing, resumed } = await ledgerOf(ground.pool, asked.exportId);
  return {
    line: `long-export: ${rows} rows, ${options.kills} kills, resumed ${resumed} times, ${doubled} rows doubled, ${missing} rows missing`,
    good:
      state === "succeeded" &&
      result?.rows === options.rows &&
      doubled === 0 &&
      missing === 0 &&
      resumed === options.kills,
  };
}

async function runAndCancel(stage: Stage): Promise<boolean> {
  const { ground, cast, jobs, screen, options } = stage;
  screen.heading("An export that is cancelled");
  // After its first step, so that there is something that stays.
  await using gates = await shutGates(ground.pool, [rowsOfStep]);
  const { exportId, jobId } = await ask(stage);
  const followed = follow(stage, jobId);
  // Heard of below.
  followed.catch(() => undefined);
  await gates.reached(patience(stage));
  await jobs.cancel(jobId, { actor: "user 17", reason: "wrong quarter" });
  screen.event("cancelled while it runs");
  await gates.open();
  await followed;
  const job = await jobs.get(jobId);
  const { rows } = await ledgerOf(ground.pool, exportId);
  screen.event(
    `the job is ${job.state}, by ${job.cancelledBy} (${job.cancelReason}), after ${rows} of ${options.rows} rows`,
  );
  screen.event(`signed webhook received: ${await cast.webhook(jobId)}`);
  return job.state === "cancelled" && job.cancelledBy === "user 17" && rows < options.rows;
}

/** Between two steps: an export takes some seconds at least, so that it can be watched and cancelled. */
function pauseMs(rows: number): number {
  return Math.max(20, Math.ceil(4_000 / (rows / rowsOfStep)));
}

/**
 * Runs the example from finding the servers to clearing everything away.
 *
 * @returns true where nothing is doubled, missing or wrong
 */
export async function runExample(
  options: ExampleOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  const { signal } = stop;
  await using services = await findServices(screen, signal);
  await using ground = await prepareGround(services, {
    name: "long_export",
    queues: ["exports", "export-webhooks"],
    shownQueues: ["exports", "export-webhooks"],
    tables: [new URL("../schema.sql", import.meta.url), new URL("gates.sql", import.meta.url)],
  });
  for (const page of ground.pages) screen.line(`           ${page}`);
  await ground.pool.query(
    `insert into sale (id, customer, amount_cents, sold_at)
     select n, 'customer ' || n % 997, n * 17 % 100000, '2026-01-01'::timestamptz + n * interval '1 second'
     from generate_series(1, $1::bigint) as n`,
    [options.rows],
  );
  await ground.pool.query("analyze sale");
  screen.event(`${options.rows} sales made`);

  screen.heading("Processes");
  await using children = createChildren((failure) => stop.abort(failure));
  const cast = await startCast(children, ground, screen, pauseMs(options.rows), signal);
  const jobs = createJobs({
    database: pgDatabase<PoolClient>(ground.pool),
    listener: pgListener(async () => {
      const client = new Client({ connectionString: ground.databaseUrl });
      await client.connect();
      return client;
    }),
  });
  const stage: Stage = { options, ground, cast, jobs, screen, signal };

  const { line, good } = await runAndKill(stage);
  await cast.ready();
  const isCancelled = await runAndCancel(stage);
  screen.line();
  screen.line(line);
  return good && isCancelled;
}
