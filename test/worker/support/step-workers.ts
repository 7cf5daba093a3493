/** Jobs of many steps, the processes that run them, and the ledger of their steps. */

import type { TestProcess } from "../../support/index.ts";
import { type App, startApp } from "./start-app.ts";

/** An app with a ledger of steps, which has no unique key: doubles can be counted. */
export async function startStepApp(
  options: Parameters<typeof startApp>[0] = {},
): Promise<App & AsyncDisposable> {
  const app = await startApp(options);
  await app.database.pool.query(
    "create table step_effect (job_id uuid not null, step integer not null, worker text not null)",
  );
  await app.database.pool.query("create table step_end (told boolean not null)");
  return app;
}

/** Starts modules/steps-worker.ts as a process; resolves when it consumes. */
export const startStepWorker = (
  app: App,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> =>
  app.startWorkerProcess(env, new URL("../modules/steps-worker.ts", import.meta.url));

/** Ends each job with its next step, however many were asked for. */
export async function endSteps(app: App): Promise<void> {
  await app.database.pool.query("insert into step_end values (true)");
}

/**
 * Steps that are not in the ledger exactly once, and how often they are; also steps after the last.
 *
 * @param steps how many each job has; left out: as many as its newest checkpoint says
 */
export async function wrongSteps(
  app: App,
  ids: readonly string[],
  steps?: number,
): Promise<unknown[]> {
  return await app.database.rows(
    `with expected as (
       select j.id, s.step
       from unnest($1::uuid[]) as j (id)
       cross join lateral generate_series(
         0,
         coalesce(
           $2::integer,
           (select max((c.checkpoint::json ->> 'done')::integer) from waybill.checkpoint as c where c.id = j.id)
         ) - 1
       ) as s (step)
     )
     select coalesce(x.id, e.job_id) as id, coalesce(x.step, e.step) as step, count(e.job_id)::integer
     from expected as x
     full join step_effect as e on e.job_id = x.id and e.step = x.step
     where coalesce(x.id, e.job_id) = any ($1::uuid[])
     group by 1, 2
     having count(e.job_id) <> 1 or count(x.id) = 0`,
    [ids, steps ?? null],
  );
}
