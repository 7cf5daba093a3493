/** Where jobs of governed queues are, written by hand: these tests have no relay and no worker. */

import { type Application, setInbox } from "./application.ts";

/** Makes everything that is enqueued so far look relayed. */
export async function isRelayed({ pool }: Application): Promise<void> {
  await pool.query("update waybill.relay set snapshot = pg_current_snapshot()");
}

/** Puts a job into the backlog of its queue, as the relay does that has read it. */
export async function setBacklog({ pool }: Application, id: string, key = ""): Promise<void> {
  await pool.query(
    `insert into waybill.backlog (id, queue, place, key, ordering_key, type, priority, dispatch, enqueued_at)
     select o.id, o.queue, o.seq, $2, o.ordering_key, o.type, coalesce(o.priority, 0), o.dispatch, o.enqueued_at
     from waybill.outbox as o where o.id = $1 order by o.seq desc limit 1`,
    [id, key],
  );
}

/** Gives a job its slot, as a dispatch does. */
export async function setSlot(
  { pool }: Application,
  id: string,
  options: { readonly waiting?: boolean; readonly key?: string } = {},
): Promise<void> {
  await pool.query(
    `insert into waybill.slot (id, queue, place, key, ordering_key, type, priority, dispatch, waiting, enqueued_at)
     select o.id, o.queue, o.seq, $2, o.ordering_key, o.type, coalesce(o.priority, 0), o.dispatch, $3, o.enqueued_at
     from waybill.outbox as o where o.id = $1 order by o.seq desc limit 1`,
    [id, options.key ?? "", options.waiting ?? false],
  );
}

/** A job whose first attempt has failed, and that waits until tomorrow for its next one. */
export async function setRetry(app: Application, id: string): Promise<void> {
  const [job] = await app.db.rows<{ queue: string; type: string }>(
    "select queue, type from waybill.outbox where id = $1",
    [id],
  );
  await setInbox(app, id, "retry_waiting", { queue: job?.queue ?? "tests" });
  await app.pool.query(
    `insert into waybill.failure (id, queue, type, attempt, token, failure_class, message, fingerprint, terminal)
     values ($1, $2, $3, 1, 1, 'transient', 'no luck', 'f1', false)`,
    [id, job?.queue, job?.type],
  );
  await app.pool.query(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, detail, type, payload, ordering_key, enqueued_at)
     select o.id, o.queue, 2, now() + interval '1 day', 'retry', 'transient: no luck', o.type, o.payload,
       o.ordering_key, o.enqueued_at
     from waybill.outbox as o where o.id = $1`,
    [id],
  );
}
