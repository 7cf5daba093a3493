/** What the tables say about the jobs of a round. */

import { createOutbox, pgDatabase } from "@waybill/postgres";
import type { Pool, PoolClient } from "pg";
import { waitForWord } from "./jobs.ts";

/** A job that a worker runs. */
export interface RunningJob {
  readonly id: string;
  readonly pid: number;
  /** Boot id of the worker. */
  readonly owner: string;
  /** Start of the attempt by the database's clock, in milliseconds. */
  readonly startedAt: number;
  /** True where its delivery was acked and its lease alone protects it. */
  readonly leased: boolean;
  /** When it was last dispatched again; undefined where it was not, or was not asked for. */
  readonly dispatchedAt: number | undefined;
}

/** Enqueues jobs of a round in one transaction. */
export async function enqueueJobs(
  pool: Pool,
  round: number,
  count: number,
): Promise<readonly string[]> {
  const database = pgDatabase<PoolClient>(pool);
  const outbox = createOutbox({ database });
  return await database.transaction(async (tx) => {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) {
      ids.push((await outbox.enqueue(tx, waitForWord, { round })).jobId);
    }
    return ids;
  });
}

/** Milliseconds by the database's clock. */
export async function databaseNow(pool: Pool): Promise<number> {
  const found = await pool.query<{ now: number }>(
    "select (extract(epoch from clock_timestamp()) * 1000)::double precision as now",
  );
  const [row] = found.rows;
  if (row === undefined) throw new Error("The database's clock gave no row.");
  return row.now;
}

/**
 * Those of the jobs that run, and where.
 *
 * @param since what was dispatched after this time counts as dispatched again
 */
export async function runningJobs(
  pool: Pool,
  ids: readonly string[],
  since?: number,
): Promise<readonly RunningJob[]> {
  const found = await pool.query<RunningJob & { dispatchedAt: number | null }>(
    `select
       i.id,
       w.pid,
       w.id as owner,
       (extract(epoch from i.started_at) * 1000)::double precision as "startedAt",
       exists (select from waybill.timer as t where t.id = i.id and t.owner = i.owner) as leased,
       (
         select (extract(epoch from max(o.created_at)) * 1000)::double precision
         from waybill.outbox as o
         where o.id = i.id and o.created_at > to_timestamp($2::double precision / 1000)
       ) as "dispatchedAt"
     from waybill.inbox as i
     join waybill.worker as w on w.id = i.owner
     where i.id = any ($1) and i.state = 'running'`,
    [ids, since ?? null],
  );
  return found.rows.map((row) => ({ ...row, dispatchedAt: row.dispatchedAt ?? undefined }));
}

/** Lets a round's jobs of these workers go on. */
export async function giveWord(pool: Pool, round: number, pids: readonly number[]): Promise<void> {
  await pool.query(
    "insert into word (round, worker_pid) select $1, pid from unnest($2::integer[]) as pid",
    [round, pids],
  );
}

/** Where jobs are, those of dead workers first, to tell why a measurement failed. */
export async function whereabouts(pool: Pool, ids: readonly string[]): Promise<string> {
  const found = await pool.query<{ line: string }>(
    `select concat_ws(
       ' ',
       i.id,
       i.state,
       'at',
       coalesce(w.name, 'no worker'),
       case when waybill.worker_alive(i.owner) then '(alive)' else '(dead)' end,
       'dispatch', i.dispatch, 'crashes', i.crashes,
       (select 'timers: ' || string_agg(concat_ws(' ', t.reason, t.dispatch, t.fire_at), ', ')
        from waybill.timer as t where t.id = i.id),
       (select 'outbox: ' || string_agg(concat_ws(' ', o.dispatch, o.created_at), ', ' order by o.seq)
        from waybill.outbox as o where o.id = i.id)
     ) as line
     from waybill.inbox as i
     left join waybill.worker as w on w.id = i.owner
     where i.id = any ($1)
     order by waybill.worker_alive(i.owner), i.id
     limit 20`,
    [ids],
  );
  return found.rows.map(({ line }) => `\n    ${line}`).join("");
}

async function countOf(pool: Pool, sql: string, values: readonly unknown[]): Promise<number> {
  const found = await pool.query<{ n: number }>(sql, [...values]);
  return found.rows[0]?.n ?? 0;
}

/** How many of the jobs have succeeded. */
export async function succeeded(pool: Pool, ids: readonly string[]): Promise<number> {
  return await countOf(
    pool,
    "select count(*)::integer as n from waybill.inbox where id = any ($1) and state = 'succeeded'",
    [ids],
  );
}

/** How many of the jobs were refused an effect that this worker wanted. */
export async function refused(pool: Pool, pid: number, ids: readonly string[]): Promise<number> {
  return await countOf(
    pool,
    "select count(distinct job_id)::integer as n from refusal where worker_pid = $1 and job_id = any ($2)",
    [pid, ids],
  );
}

/** How many of the workers are alive. */
export async function alive(pool: Pool, pids: readonly number[]): Promise<number> {
  return await countOf(
    pool,
    `select count(distinct w.pid)::integer as n
     from waybill.worker as w
     where w.pid = any ($1) and waybill.worker_alive(w.id)`,
    [pids],
  );
}

/** The books at the end. */
export interface Ledger {
  readonly jobs: number;
  /** Jobs without an effect, or without success. */
  readonly lost: number;
  readonly doubled: number;
  /** Effects that were refused to workers that had lost their jobs. */
  readonly refused: number;
}

/** Counts all that was enqueued. */
export async function readLedger(pool: Pool, ids: readonly string[]): Promise<Ledger> {
  const found = await pool.query<Ledger>(
    `with job as (
       select
         j.id,
         (select count(*) from effect as e where e.job_id = j.id) as effects,
         exists (select from waybill.inbox as i where i.id = j.id and i.state = 'succeeded') as ended
       from unnest($1::uuid[]) as j (id)
     )
     select
       count(*)::integer as jobs,
       (count(*) filter (where j.effects = 0 or not j.ended))::integer as lost,
       (count(*) filter (where j.effects > 1))::integer as doubled,
       (select count(*)::integer from refusal) as refused
     from job as j`,
    [ids],
  );
  const [ledger] = found.rows;
  if (ledger === undefined) throw new Error("The ledger gave no row.");
  return ledger;
}
