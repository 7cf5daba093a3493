-- Puts claimed jobs of governed queues back to the backlog before they have started, because something came
-- between (a pause, a breaker that opened): to their place, and without an attempt. They come back with a
-- higher dispatch, so that no copy of this delivery can run them beside their slot. A job that is missing in
-- the answer is not this attempt's any more.
--
-- $1 JSON array of {id, queue, token}
--
-- Plan: inbox_pkey of one partition a row, slot_pkey. Caller: the worker's claims.
with given as (
  select g.id, g.queue, g.token
  from jsonb_to_recordset($1::jsonb) as g (id uuid, queue text, token bigint)
),
returned as (
  update waybill.inbox as i
  set state = 'retry_waiting',
      attempt = greatest(0, i.attempt - 1),
      -- Without an owner it would count as interrupted, and start after its expiry.
      owner = case when i.attempt > 1 or i.crashes > 0 then null else i.owner end
  from given as g
  where i.id = g.id
    and i.queue = g.queue
    and i.token = g.token
    and i.state = 'running'
  returning i.id, i.queue, i.dispatch
),
unslotted as (
  delete from waybill.slot as s
  using returned as r
  where s.id = r.id and s.queue = r.queue
  returning s.id, s.queue, s.place, s.key, s.ordering_key, s.type, s.priority, r.dispatch + 1 as dispatch, s.enqueued_at
),
kept as (
  insert into waybill.backlog as b (id, queue, place, key, ordering_key, type, priority, dispatch, enqueued_at)
  select u.id, u.queue, u.place, u.key, u.ordering_key, u.type, u.priority, u.dispatch, u.enqueued_at
  from unslotted as u
  on conflict (id, queue) do update
  set dispatch = greatest(b.dispatch, excluded.dispatch)
),
news as (
  insert into waybill.freed (queue, ended, changed)
  select u.queue, array_agg(u.id), array_agg(u.id)
  from unslotted as u
  group by u.queue
)
select u.id::text as id, u.queue
from unslotted as u
