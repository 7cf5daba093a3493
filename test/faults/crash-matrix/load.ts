/**
 * One load that passes every step: jobs that succeed, fail, are dead-lettered, wait, outlast their
 * delivery and go in order; a message that the broker refuses at first; a message without a slot; and
 * what a dead worker has left behind.
 */

import { newJobId } from "@waybill/core";
import type { App } from "../../worker/support/start-app.ts";
import { addWorker } from "../../support/worker-row.ts";
import { fair } from "./jobs.ts";

/** Exchange that does not exist at first. */
export const outside = "outside";

async function enqueue({ database }: App, jobs: readonly object[]): Promise<readonly string[]> {
  const rows = await database.rows<{ job_id: string }>(
    `with enqueued as (
       select e.id::uuid as id, e.n from waybill.enqueue($1::jsonb) with ordinality as e (id, deduplicated, n)
     )
     insert into committed (job_id, type, ordering_key)
     select e.id, coalesce(j.job ->> 'kind', j.job ->> 'type'), j.job ->> 'ordering_key'
     from enqueued as e
     join jsonb_array_elements($1::jsonb) with ordinality as j (job, n) using (n)
     order by n
     returning job_id`,
    [JSON.stringify(jobs)],
  );
  return rows.map(({ job_id }) => job_id);
}

/** Jobs of the queue "work". */
const work = (type: string, count: number, more: object = {}): object[] =>
  Array.from({ length: count }, () => ({ type, queue: "work", payload: {}, ...more }));

/** Two jobs of a worker that has died: one lies at the broker no more, the other has a lease. */
async function leaveOrphans(app: App): Promise<void> {
  const { database } = app;
  const ids = await enqueue(app, work("effect", 2));
  // They were published long ago.
  await database.rows("update waybill.relay set snapshot = pg_current_snapshot()");
  const owner = await addWorker(database, "dead", { lease_until: new Date(0), running: 2 });
  await database.rows(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner, started_at)
     select id, 'work', 'effect', 'running', 1, 1, $2, now() from unnest($1::uuid[]) as u (id)`,
    [ids, owner],
  );
  await database.rows(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, owner, type, payload)
     values ($1, 'work', 2, 'infinity', 'lease', $2, 'effect', '{}')`,
    [ids[1], owner],
  );
}

/** Publishes a message by hand to the governed queue: it has no slot. */
async function sendWithoutSlot(app: App): Promise<void> {
  const id = newJobId();
  await app.database.rows("insert into committed (job_id, type) values ($1, 'turn')", [id]);
  await app.courier.dispatch({ id, type: "turn", queue: "fair" });
}

/** Puts the load into place, before anybody runs. */
export async function enqueueLoad(app: App): Promise<void> {
  await app.database.rows("insert into waybill.queue (name, declared) values ('fair', $1)", [
    JSON.stringify(fair.settings),
  ]);
  await leaveOrphans(app);
  await sendWithoutSlot(app);
  await enqueue(app, [
    { kind: "route", exchange: outside, routing_key: "x", type: "t", payload: {} },
    ...work("effect", 8),
    ...work("effect", 1, { payload: { ms: 1_300 } }),
    ...work("effect", 3, { payload: { failures: 1 } }),
    ...work("effect", 2, { delay_ms: 200 }),
    ...work("plain", 3),
    ...work("doomed", 2),
    ...Array.from({ length: 8 }, (_, n) => ({
      type: "turn",
      queue: "fair",
      payload: {},
      concurrency_key: `k${n % 2}`,
      ordering_key: `o${n % 3}`,
    })),
  ]);
}

/** One more job, after all that has happened. */
export async function enqueueOne(app: App): Promise<void> {
  await enqueue(app, work("effect", 1));
}

/** Makes the exchange, and a queue that takes what comes to it. */
export async function makeOutside({ vhost }: App): Promise<void> {
  const { management, name } = vhost;
  await management.request("PUT", `/api/exchanges/${name}/${outside}`, { type: "fanout" });
  await management.request("PUT", `/api/queues/${name}/${outside}`, { durable: true });
  await management.request("POST", `/api/bindings/${name}/e/${outside}/q/${outside}`, {});
}
