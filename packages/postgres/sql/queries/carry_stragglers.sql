-- Carries forward what still matters in an old partition of the outbox: published rows of jobs that
-- have not ended, and events whose deliveries have not. They move into today's partition and keep
-- transaction and place, so the relay does not see them again.
--
-- $1 and $2 the partition's bounds, $3 rows at most
--
-- Plan: one partition, by its bounds. Caller: the relay's partition keeper.
with straggler as materialized (
  select o.tx, o.seq
  from waybill.outbox as o
  where o.created_at >= $1::timestamptz
    and o.created_at < $2::timestamptz
    and case o.kind
      when 'job' then not exists (
        select
        from waybill.inbox as i
        where i.id = o.id and i.queue = o.queue and i.state in ('succeeded', 'failed', 'cancelled')
      )
      when 'event' then exists (
        select
        from waybill.inbox as i
        where i.id = o.id and i.state in ('queued', 'running', 'retry_waiting')
      )
      else false
    end
    and pg_visible_in_snapshot(o.tx, (select r.snapshot from waybill.relay as r where r.shard = 0))
  limit $3::integer
),
taken as (
  delete from waybill.outbox as o
  using straggler as s
  where o.tx = s.tx
    and o.seq = s.seq
    and o.created_at >= $1::timestamptz
    and o.created_at < $2::timestamptz
  returning o.*
)
insert into waybill.outbox (
  tx, seq, id, kind, dispatch, queue, type, version, exchange, routing_key, payload, payload_base64,
  headers, priority, ordering_key, correlation_id, expires_at, enqueued_at, failures
)
select
  t.tx, t.seq, t.id, t.kind, t.dispatch, t.queue, t.type, t.version, t.exchange, t.routing_key,
  t.payload, t.payload_base64, t.headers, t.priority, t.ordering_key, t.correlation_id, t.expires_at,
  t.enqueued_at, t.failures
from taken as t
returning id::text as id
