import { defineJob, type JobDefinition } from "@waybill/core";
import {
  createJobs,
  createOutbox,
  type Database,
  type Jobs,
  migrate,
  type Outbox,
  type OutboxOptions,
  pgDatabase,
} from "@waybill/postgres";
import type { Pool, PoolClient } from "pg";
import { z } from "zod";
import { createMigratedDatabase, createTestDatabase, type TestDatabase } from "../support/index.ts";

/** A small application: a migrated database with a table `orders` of its own, an outbox and the jobs. */
export interface Application extends AsyncDisposable {
  readonly db: TestDatabase;
  readonly pool: Pool;
  readonly database: Database<PoolClient>;
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: Jobs<PoolClient>;
  /** Payloads of the outbox in the order of seq. */
  payloads(): Promise<string[]>;
  /** Number of rows of a statement `select count(*)`. */
  count(from: string): Promise<number>;
}

/** Takes any JSON, so that tests decide what is in a payload. */
export const anyJob: JobDefinition<"test.any", z.ZodUnknown, undefined, undefined> = defineJob({
  name: "test.any",
  queue: "tests",
  payload: z.unknown(),
});

export async function startApplication(
  options: Partial<OutboxOptions<PoolClient>> = {},
): Promise<Application> {
  const { schema } = options;
  const db = await (schema === undefined ? createMigratedDatabase() : createTestDatabase());
  if (schema !== undefined) await migrate(db.pool, { schema });
  await db.pool.query("create table orders (id bigint generated always as identity, note text)");
  const database = pgDatabase(db.pool);
  return {
    db,
    pool: db.pool,
    database,
    outbox: createOutbox({ database, ...options }),
    jobs: createJobs({ database, schema, actor: "tester" }),
    payloads: async () =>
      (await db.rows<{ payload: string }>("select payload from waybill.outbox order by seq")).map(
        (row) => row.payload,
      ),
    count: async (from) => {
      const [row] = await db.rows<{ n: string }>(`select count(*) as n from ${from}`);
      return Number(row?.n);
    },
    [Symbol.asyncDispose]: () => db[Symbol.asyncDispose](),
  };
}

/** What a job's worker has done to it, written by hand: these tests have no worker. */
export async function setInbox(
  { pool }: Application,
  id: string,
  state: string,
  options: { readonly queue?: string; readonly attempt?: number; readonly dispatch?: number } = {},
): Promise<void> {
  await pool.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, enqueued_at, started_at, finished_at)
     values ($1, $2, 'test.any', $3, $4, $5, now(), now(),
       case when $3 in ('succeeded', 'failed', 'cancelled') then now() end)
     on conflict (id, queue) do update set state = excluded.state, finished_at = excluded.finished_at`,
    [id, options.queue ?? "tests", state, options.attempt ?? 1, options.dispatch ?? 1],
  );
}

/** A job that has failed for good, as the worker leaves it. */
export async function setFailed(app: Application, id: string, queue = "tests"): Promise<void> {
  await app.pool.query(
    `insert into waybill.failure (id, queue, type, attempt, token, failure_class, message, fingerprint, terminal)
     values ($1, $2, 'test.any', 3, 3, 'unknown', 'no luck', 'f1', true)`,
    [id, queue],
  );
  await app.pool.query(
    `insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, headers, enqueued_at)
     select o.id, $2, o.type, 3, 'unknown', 'no luck', 'f1', o.payload, o.headers, o.enqueued_at
     from waybill.outbox as o where o.id = $1`,
    [id, queue],
  );
  // Last: whoever watches the job reads the rest when it sees this.
  await setInbox(app, id, "failed", { queue, attempt: 3, dispatch: 3 });
  await app.pool.query("update waybill.inbox set deaths = 1, crashes = 2 where id = $1", [id]);
}
