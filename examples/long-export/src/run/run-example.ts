import { randomUUID } from "node:crypto";
import { createJobs, createOutbox, type Jobs, pgDatabase, pgListener } from "@waybill/postgres";
import { Client, type PoolClient } from "pg";
import { resolveServices } from "../../../../scripts/services/index.ts";
import { createChildren } from "../../../../scripts/stage/children.ts";
import { type Ground, prepareGround } from "../../../../scripts/stage/ground.ts";
import { unlessStopped } from "../../../../scripts/stage/run-script.ts";
import type { Screen } from "../../../../scripts/stage/screen.ts";
import { exportSales } from "../jobs.ts";
import { type Cast, startCast } from "./cast.ts";
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

/** Follows an export to its end, and kills its workers at even distances. */
async function followAndKill(stage: Stage, { jobId }: Asked): Promise<string> {
  const { jobs, cast, screen, options, signal } = stage;
  let kills = 0;
  let state = "queued";
  for await (const job of jobs.watch(jobId, { signal })) {
    state = job.state;
    const { done, total, percent } = job.progress ?? { done: 0, total: 0, percent: 0 };
    screen.progress(
      `export: ${done ?? 0} of ${total ?? options.rows} rows (${percent ?? 0} %), ${job.state}`,
      (percent ?? 0) / 100,
    );
    const due = ((kills + 1) * options.rows) / (options.kills + 1);
    if (kills >= options.kills || job.state !== "running" || (done ?? 0) < due) continue;
    const pid = await pidOfOwner(stage, jobId);
    if (pid === undefined) continue;
    kills += 1;
    await cast.killWorker(pid);
    screen.event(`kill ${kills}: worker process ${pid} killed with SIGKILL at ${done ?? 0} rows`);
  }
  screen.endProgress();
  if (kills < options.kills) {
    throw new Error(`Only ${kills} of ${options.kills} workers were killed before the end.`);
  }
  return state;
}

async function runAndKill(
  stage: Stage,
): Promise<{ readonly line: string; readonly good: boolean }> {
  const { ground, cast, jobs, screen, options } = stage;
  screen.heading("An export whose workers are killed");
  const asked = await ask(stage);
  const state = await followAndKill(stage, asked);
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
  const { ground, cast, jobs, screen, options, signal } = stage;
  screen.heading("An export that is cancelled");
  const { exportId, jobId } = await ask(stage);
  let asked = false;
  let last;
  for await (const job of jobs.watch(jobId, { signal })) {
    last = job;
    if (asked || (job.progress?.done ?? 0) === 0) continue;
    asked = true;
    await jobs.cancel(jobId, { actor: "user 17", reason: "wrong quarter" });
    screen.event(`cancelled at ${job.progress?.done ?? 0} rows`);
  }
  const { rows } = await ledgerOf(ground.pool, exportId);
  screen.event(
    `the job is ${last?.state}, by ${last?.cancelledBy} (${last?.cancelReason}), after ${rows} of ${options.rows} rows`,
  );
  screen.event(`signed webhook received: ${await cast.webhook(jobId)}`);
  return last?.state === "cancelled" && last.cancelledBy === "user 17" && rows < options.rows;
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
  screen.heading("Services");
  await using services = await unlessStopped(
    resolveServices({ log: (line) => screen.event(line) }),
    signal,
  );
  await using ground = await prepareGround(services, {
    name: "long_export",
    queues: ["exports", "export-webhooks"],
    shownQueues: ["exports", "export-webhooks"],
    tables: [new URL("../schema.sql", import.meta.url)],
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
  const cast = await startCast(children, ground, screen, signal);
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
