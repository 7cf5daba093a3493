import type { Logger } from "@waybill/core";
import {
  createJobs,
  type Database,
  type JobListener,
  type Jobs,
  type JobSnapshot,
  pgDatabase,
  pgListener,
} from "@waybill/postgres";
import { Client, type PoolClient } from "pg";
import { anyJob, type Application, setInbox } from "./application.ts";

/** Name of the connections that listen. */
export const listenerName = "watching-test";

export const enqueue = (app: Application, options = {}): Promise<string> =>
  app.outbox
    .enqueue(app.pool, anyJob, { n: 1 }, { autocommit: true, ...options })
    .then((receipt) => receipt.jobId);

/** Tells watchers, as a worker does. */
export const tell = (app: Application, ...ids: readonly string[]): Promise<unknown> =>
  app.pool.query(
    `select pg_notify('waybill.job', id::text) from (select distinct id from waybill.watch where id = any ($1::uuid[])) as w`,
    [ids],
  );

/** A running job reports how far it is. */
export async function report(app: Application, id: string, done: number): Promise<void> {
  await app.pool.query(
    `insert into waybill.progress (id, queue, attempt, stage, done, total) values ($1, 'tests', 1, 'counting', $2, 200)
     on conflict (id, queue) do update set done = excluded.done, reported_at = clock_timestamp()`,
    [id, done],
  );
  await tell(app, id);
}

/** A job succeeds, with this result as JSON text. */
export async function succeed(app: Application, id: string, result?: string): Promise<void> {
  if (result !== undefined) {
    await app.pool.query(
      "insert into waybill.result (id, queue, result) values ($1, 'tests', $2)",
      [id, result],
    );
  }
  await setInbox(app, id, "succeeded");
  await tell(app, id);
}

/** Listens on a connection of its own to this URL. */
export const listenerTo = (url: string): JobListener =>
  pgListener(async () => {
    const client = new Client({ connectionString: url, application_name: listenerName });
    await client.connect();
    return client;
  });

/** Jobs with a listener, and what they logged. */
export interface WatchedJobs {
  readonly jobs: Jobs<PoolClient>;
  /** Messages of the log, in order. */
  readonly said: readonly string[];
}

export function watchedJobs(
  app: Application,
  options: {
    readonly listener?: JobListener | undefined;
    readonly database?: Database<PoolClient> | undefined;
  } = {},
): WatchedJobs {
  const said: string[] = [];
  const note = (_fields: object, message: string): void => void said.push(message);
  const logger: Logger = {
    child: () => logger,
    debug: note,
    info: note,
    warn: note,
    error: note,
  };
  const listener = "listener" in options ? options.listener : listenerTo(app.db.url);
  return {
    jobs: createJobs({ database: options.database ?? pgDatabase(app.pool), listener, logger }),
    said,
  };
}

/** A loop over a watch, as it goes. */
export interface Followed {
  readonly seen: readonly JobSnapshot[];
  /** Resolves when the loop has ended, with its error if it threw. */
  readonly ended: Promise<unknown>;
}

export function follow(watch: AsyncIterable<JobSnapshot>): Followed {
  const seen: JobSnapshot[] = [];
  const loop = async (): Promise<void> => {
    for await (const snapshot of watch) seen.push(snapshot);
  };
  return { seen, ended: loop().catch((error: unknown) => error) };
}

/** Processes of the connections that listen. */
export const listeners = async (app: Application): Promise<number[]> =>
  (
    await app.db.rows<{ pid: number }>(
      "select pid from pg_stat_activity where datname = current_database() and application_name = $1",
      [listenerName],
    )
  ).map(({ pid }) => pid);
