import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import type { Child } from "../../../../scripts/stage/children.ts";
import { until } from "../../../../scripts/stage/until.ts";

/** What a kill did. */
export interface Kill {
  readonly process: "worker" | "relay";
  readonly pid: number;
  /** Jobs that the worker was running, or that waited in the outbox when the relay died. */
  readonly inHand: number;
  /** From the kill until the others had taken over, in milliseconds. */
  readonly takeoverMs: number;
}

const deadlineMs = 60_000;

async function one<Row extends object>(
  pool: Pool,
  sql: string,
  values: unknown[] = [],
): Promise<Row> {
  const [row] = (await pool.query<Row>(sql, values)).rows;
  if (row === undefined) throw new Error(`This query gave no row: ${sql}`);
  return row;
}

async function runningOf(pool: Pool, worker: string): Promise<number> {
  const { running } = await one<{ running: number }>(
    pool,
    "select count(*)::integer as running from waybill.inbox where owner = $1 and state = 'running'",
    [worker],
  );
  return running;
}

/** Freezes the worker in the middle of jobs: between a look and a kill, jobs of milliseconds end. */
export async function catchBusy(
  pool: Pool,
  child: Child,
  worker: string,
  signal: AbortSignal,
): Promise<void> {
  const look = async (): Promise<true | undefined> => {
    child.freeze();
    // What it had sent to the database before is carried out all the same.
    await sleep(30, undefined, { signal });
    if ((await runningOf(pool, worker)) > 0) return true;
    child.thaw();
    return undefined;
  };
  await until(`${child.name} to have jobs in hand`, look, { deadlineMs, intervalMs: 20, signal });
}

/** Waits until none of the dead worker's jobs is its own any more. */
export async function workerTakenOver(
  pool: Pool,
  worker: string,
  signal: AbortSignal,
): Promise<{ readonly inHand: number; readonly takeoverMs: number }> {
  const killedAt = performance.now();
  const inHand = await runningOf(pool, worker);
  await until(
    `the ${inHand} jobs of the killed worker to be taken over`,
    async () => ((await runningOf(pool, worker)) === 0 ? true : undefined),
    { deadlineMs, intervalMs: 20, signal },
  );
  return { inHand, takeoverMs: performance.now() - killedAt };
}

/** Jobs in the outbox that no relay has passed yet. */
export async function waitingJobs(pool: Pool): Promise<number> {
  const { waiting } = await one<{ waiting: number }>(
    pool,
    "select count(*)::integer as waiting from waybill.job where not relayed",
  );
  return waiting;
}
