/** Jobs of many steps, the processes that run them, and the ledger of their steps. */

import { startProcess, type TestProcess } from "../../support/index.ts";
import { type App, startApp } from "./start-app.ts";

/** An app with a ledger of steps, which has no unique key: doubles can be counted. */
export async function startStepApp(
  options: Parameters<typeof startApp>[0] = {},
): Promise<App & AsyncDisposable> {
  const app = await startApp(options);
  await app.database.pool.query(
    "create table step_effect (job_id uuid not null, step integer not null, worker text not null)",
  );
  return app;
}

/** Starts modules/steps-worker.ts as a process; resolves when it consumes. */
export async function startStepWorker(
  app: App,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> {
  const child = await startProcess(new URL("../modules/steps-worker.ts", import.meta.url), [], {
    DATABASE_URL: app.database.url,
    BROKER_URL: app.vhost.url,
    PREFIX: app.vhost.prefix,
    WAYBILL_TEST_LOG: process.env["WAYBILL_TEST_LOG"],
    ...env,
  });
  await child.waitForLine("started");
  return child;
}

/** Starts a relay as a process; resolves when it runs. */
export async function startAppRelay(app: App): Promise<TestProcess> {
  const options = {
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, prefix: app.vhost.prefix },
    idlePollMs: 100,
  };
  const child = await startProcess(
    new URL("../../support/relay-process.ts", import.meta.url),
    [JSON.stringify(options)],
    {},
  );
  await child.waitForLine("ready");
  return child;
}

/** Steps in the ledger that are not there exactly once, and how often they are. */
export async function wrongSteps(
  app: App,
  ids: readonly string[],
  steps: number,
): Promise<unknown[]> {
  return await app.database.rows(
    `select j.id, s.step, count(e.job_id)::integer
     from unnest($1::uuid[]) as j (id)
     cross join generate_series(0, $2::integer - 1) as s (step)
     left join step_effect as e on e.job_id = j.id and e.step = s.step
     group by j.id, s.step
     having count(e.job_id) <> 1`,
    [ids, steps],
  );
}
