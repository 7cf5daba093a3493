-- Moves due timers into the outbox, oldest first: each is published next.
--
-- $1 rows at most
--
-- Plan: timer_fire_at_idx. Caller: the relay's timers.
with due as materialized (
  select t.id, t.queue, t.kind, t.dispatch
  from waybill.timer as t
  where t.fire_at <= statement_timestamp()
  order by t.fire_at
  limit $1::integer
  for update skip locked
),
fired as (
  delete from waybill.timer as t
  using due as d
  where t.id = d.id and t.queue = d.queue and t.kind = d.kind and t.dispatch = d.dispatch
  returning t.*
)
insert into waybill.outbox (
  id, kind, dispatch, queue, type, version, exchange, routing_key, payload, payload_base64, headers,
  priority, ordering_key, correlation_id, expires_at, enqueued_at, failures
)
select
  f.id, f.kind, f.dispatch, nullif(f.queue, ''), f.type, f.version, f.exchange, f.routing_key,
  f.payload, f.payload_base64, f.headers, f.priority, f.ordering_key, f.correlation_id, f.expires_at,
  f.enqueued_at, f.failures
from fired as f
order by f.fire_at, f.created_at
returning id::text as id
