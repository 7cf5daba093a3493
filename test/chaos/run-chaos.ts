/** A run: warm up, faults, calm, drain, checks. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import type { Screen } from "../../scripts/stage/screen.ts";
import { until } from "../../scripts/stage/until.ts";
import { askLedger, type Finding, loadFiles, outcomesOf } from "./books.ts";
import { findSecret } from "./canary.ts";
import { Cast } from "./cast.ts";
import { openChronicle } from "./chronicle.ts";
import { isSubscribed, prepareField } from "./field.ts";
import { historyOf } from "./history.ts";
import { findLeaks } from "./leaks.ts";
import type { ChaosOptions } from "./options.ts";
import { keepPace, progressOf } from "./pacing.ts";
import { type Plan, planOf, warmUpMs } from "./plan.ts";
import { readRunLogs, type Runs } from "./run-log.ts";
import { brokenLimits, brokenOrder, recoveriesOf, takeoversOf } from "./run-checks.ts";
import { scheduleOf } from "./schedule.ts";
import { type Scene, storm } from "./storm.ts";
import { isGreen, lastLine, type Result } from "./verdict.ts";

/** How long everything may take to end once the faults are over, in milliseconds. */
const drainMs = 180_000;

type RunOptions = Exclude<ChaosOptions, { readonly only: string }>;

/** What is still to do; undefined: nothing. */
async function leftToDo(pool: Pool): Promise<string | undefined> {
  const progress = await progressOf(pool);
  if (progress === undefined) return "the database does not answer";
  if (progress.unfinished > 0) return `${progress.unfinished} deliveries have not ended`;
  const { rows } = await pool.query<{ name: string }>(
    `select 'timer' as name from waybill.timer
     union all select 'slot' from waybill.slot
     union all select 'backlog' from waybill.backlog
     union all select 'freed' from waybill.freed
     union all select 'outbox' from waybill.outbox as o, waybill.relay as r
       where not coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false)
     limit 1`,
  );
  return rows[0] === undefined ? undefined : `there are rows to do in waybill.${rows[0].name}`;
}

async function drain(pool: Pool, screen: Screen, signal: AbortSignal): Promise<readonly Finding[]> {
  let left: string | undefined;
  try {
    await until(
      "everything to end",
      async () => {
        left = await leftToDo(pool).catch(String);
        screen.progress(`drain: ${left ?? "done"}`, 1);
        return left === undefined ? true : undefined;
      },
      { deadlineMs: drainMs, intervalMs: 500, signal },
    );
    return [];
  } catch (error) {
    signal.throwIfAborted();
    const what = `not drained ${drainMs / 1_000} s after the faults: ${left ?? String(error)}`;
    return [{ what, fault: "broken", count: 1, jobs: [] }];
  }
}

/** Reads the ledger and the files, while the processes still run. */
async function audit(scene: Scene, runs: Runs, directory: string): Promise<readonly Finding[]> {
  const { pool } = scene.field.ground;
  const { members } = scene.cast;
  await loadFiles(pool, directory, runs);
  return [
    ...(await askLedger(pool)),
    ...brokenLimits(runs.runs, members),
    ...(await brokenOrder(pool, runs.runs, members)),
  ];
}

async function tell(
  { field }: Scene,
  findings: readonly Finding[],
  directory: string,
  screen: Screen,
): Promise<void> {
  for (const { what, fault, count, jobs } of findings) {
    screen.line(`${fault}: ${count} x ${what}`);
    for (const id of jobs) {
      screen.line(`  ${id}`);
      for (const line of await historyOf(field.ground.pool, directory, id))
        screen.line(`    ${line}`);
    }
  }
}

/** Starts everybody, and resolves when jobs are done. */
async function warmUp({ field, cast, signal }: Scene): Promise<void> {
  const limits = { deadlineMs: 120_000, signal };
  const failed = (): void => {
    const [failure] = cast.failures;
    if (failure !== undefined) throw new Error(failure);
  };
  cast.open("relay");
  cast.open("worker");
  await until(
    "the workers to subscribe",
    async () => {
      failed();
      // An event that is published before is not for the subscription.
      return (await isSubscribed(field)) ? true : undefined;
    },
    limits,
  );
  cast.open("producer");
  await until(
    "the first jobs to end",
    async () => {
      failed();
      const { rowCount } = await field.ground.pool.query("select from ended limit 50");
      return rowCount === 50 ? true : undefined;
    },
    limits,
  );
}

async function play(
  plan: Plan,
  { seed }: RunOptions,
  directory: string,
  screen: Screen,
  stop: AbortController,
): Promise<Result> {
  const { signal } = stop;
  screen.heading("Servers and processes");
  await using field = await prepareField();
  const { pool } = field.ground;
  const chronicle = openChronicle(directory);
  // A line for each step of each job, where that is not too much.
  const logLevel = plan.jobs > 20_000 ? "info" : "debug";
  await using cast = new Cast({ field, chronicle, seed, directory, logLevel });
  const scene: Scene = { field, cast, chronicle, signal };
  let isOver = false;
  const byMs = Date.now() + warmUpMs + plan.faultsMs;
  const pacing = keepPace(pool, { jobs: plan.jobs, byMs }, () => isOver, signal);
  pacing.catch(() => undefined);
  await warmUp(scene);
  await delay(warmUpMs, undefined, { signal });

  screen.heading("Faults");
  const schedule = scheduleOf(seed, plan);
  cast.arm(Date.now() + plan.faultsMs);
  const { counts } = chronicle;
  await storm(schedule, scene, (done) => {
    const kills = `${counts.process} processes, ${counts.broker} brokers, ${counts.database} databases killed`;
    screen.progress(`${kills}, ${counts.cuts} cuts`, done / schedule.length);
  });
  isOver = true;
  for (const way of Object.values(field.ways)) way.pass();
  await cast.calm();
  screen.endProgress();

  screen.heading("Calm");
  await pacing;
  await cast.close("producer");
  const undrained = await drain(pool, screen, signal);
  screen.endProgress();
  const logs = [...cast.members.values()].filter(({ role }) => role === "worker");
  const runs = readRunLogs(
    new Map(logs.map(({ name }) => [name, join(directory, `${name}.runs`)])),
  );
  const audited = await audit(scene, runs, directory);
  const jobs = (await progressOf(pool))?.committed ?? 0;
  screen.event(`transactions of producers: ${await outcomesOf(pool)}`);
  await cast.close();
  const failures = cast.failures.map((what): Finding => ({
    what,
    fault: "broken",
    count: 1,
    jobs: [],
  }));
  const findings = [
    ...undrained,
    ...audited,
    ...failures,
    ...(await findLeaks(field)),
    ...(await findSecret(pool, directory, field.secret)),
  ];
  const result: Result = {
    seed,
    jobs,
    counts,
    findings,
    takeoversMs: takeoversOf(runs.runs, cast.members, chronicle.disturbances),
    recoveriesMs: recoveriesOf(runs.runs, chronicle.disturbances),
  };
  screen.event(
    `${runs.runs.length} runs of handlers; ${result.takeoversMs.length} takeovers and ${result.recoveriesMs.length} recoveries measured`,
  );
  await tell(scene, findings, directory, screen);
  if (!isGreen(result)) {
    await writeFile(join(directory, "database-server.log"), await field.postgres.log());
    await writeFile(join(directory, "broker-server.log"), await field.rabbitmq.log());
  }
  return result;
}

/**
 * A run from starting the servers to clearing everything away. A red one keeps its directory.
 *
 * @returns true where nothing was found
 */
export async function runChaos(
  options: RunOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  const plan = planOf(options.mode, options.minutes);
  screen.line(
    `chaos: seed=${options.seed} ${options.mode}, ${options.minutes} minutes, at least ${plan.jobs} jobs`,
  );
  const directory = await mkdtemp(join(tmpdir(), "waybill-chaos-"));
  let keep = true;
  try {
    const result = await play(plan, options, directory, screen, stop);
    keep = !isGreen(result);
    if (keep) screen.line(`Logs and ledgers: ${directory}`);
    screen.line(lastLine(result));
    return !keep;
  } catch (error) {
    keep = !stop.signal.aborted;
    if (keep) screen.line(`Logs and ledgers: ${directory}`);
    throw error;
  } finally {
    if (!keep) await rm(directory, { recursive: true, force: true });
  }
}
