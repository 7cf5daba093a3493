/**
 * When handlers ran, by the database's clock: a row for each, committed after its handler has begun and
 * ended before its handler returns. So no two spans overlap whose handlers do not.
 */

import { setTimeout as delay } from "node:timers/promises";
import { defineJob, type JobDefinition } from "@waybill/core";
import type { Job, Worker } from "@waybill/worker";
import type { Pool, PoolClient } from "pg";
import { z } from "zod";
import type { App } from "../../worker/support/start-app.ts";
import type { TestProcess } from "../../support/index.ts";

const payload = z.object({ ms: z.int() });

/** Works for so many milliseconds. */
export const spanJob: JobDefinition<"span", typeof payload, undefined, undefined> = defineJob({
  name: "span",
  queue: "work",
  payload,
  retry: { maxAttempts: 5, initialDelayMs: 10, maxDelayMs: 10 },
});

/** Registers the handler that writes its span. */
export function handleSpans(worker: Worker<PoolClient>, pool: Pool): void {
  worker.handle(spanJob, async (job: Job<typeof spanJob, PoolClient>) => {
    const { rows } = await pool.query<{ n: string }>(
      "insert into span (job_id, pid) values ($1, $2) returning n",
      [job.id, process.pid],
    );
    await delay(job.payload.ms);
    await pool.query("update span set ended = clock_timestamp() where n = $1", [rows[0]?.n]);
  });
}

/** The spans of an app, and what they say. */
export interface Spans {
  /** Handlers that ran at one time at most, in a stretch of time; default: ever. */
  most(from?: Date, to?: Date): Promise<number>;
  /** Jobs that have ended as succeeded. */
  succeeded(): Promise<number>;
  now(): Promise<Date>;
  /** Kills a worker's process; what ran there ended no later than that. */
  kill(process: TestProcess): Promise<void>;
  /** Enqueues so many jobs in one statement. */
  enqueue(count: number, ms: number): Promise<void>;
}

/** Makes the table. */
export async function createSpans(app: App): Promise<Spans> {
  const { database } = app;
  await database.rows(
    `create table span (
       n bigint generated always as identity primary key, job_id uuid not null, pid integer not null,
       started timestamptz not null default clock_timestamp(), ended timestamptz
     )`,
  );
  const now = async (): Promise<Date> => {
    const [row] = await database.rows<{ now: Date }>("select clock_timestamp() as now");
    return row?.now ?? new Date(Number.NaN);
  };
  return {
    now,
    async most(from, to) {
      const [row] = await database.rows<{ most: number }>(
        `with edge as (
           select started as at, 1 as step from span
           union all
           select ended, -1 from span where ended is not null
         ),
         sum as (
           select at, sum(step) over (order by at, step rows unbounded preceding) as running from edge
         )
         select coalesce(max(running), 0)::integer as most
         from sum
         where ($1::timestamptz is null or at >= $1) and ($2::timestamptz is null or at < $2)`,
        [from ?? null, to ?? null],
      );
      return row?.most ?? 0;
    },
    async succeeded() {
      const [row] = await database.rows<{ n: number }>(
        "select count(*)::integer as n from waybill.inbox where state = 'succeeded'",
      );
      return row?.n ?? 0;
    },
    async kill(child) {
      const at = await now();
      child.kill("SIGKILL");
      await child.exited;
      await database.rows(
        "update span set ended = greatest(started, $2) where pid = $1 and ended is null",
        [child.pid, at],
      );
    },
    async enqueue(count, ms) {
      await database.rows("select count(*) from waybill.enqueue($1::jsonb)", [
        JSON.stringify(
          Array.from({ length: count }, () => ({ type: "span", queue: "work", payload: { ms } })),
        ),
      ]);
    },
  };
}

/** Sets the limit of the queue "work" as an operator does; undefined: none. */
export async function setLimit({ database }: App, limit: number | undefined): Promise<void> {
  await database.rows(
    `insert into waybill.queue (name, overrides) values ('work', $1)
     on conflict (name) do update set overrides = excluded.overrides`,
    [limit === undefined ? {} : { concurrency: limit }],
  );
}

/** Pauses the queue "work", or resumes it. */
export async function setPaused({ database }: App, isPaused: boolean): Promise<void> {
  await database.rows(
    `insert into waybill.queue (name, paused_at) values ('work', case when $1 then now() end)
     on conflict (name) do update set paused_at = excluded.paused_at`,
    [isPaused],
  );
}
