-- As read_window.sql, for a last published snapshot without transactions in progress: half the cost
-- of an empty poll.
--
-- $1 last published snapshot, $2 rows at most, $3 bytes of payload at most
--
-- Plan: outbox_tx_seq_idx of every partition. Caller: the relay's window reader.
with edge as materialized (
  select pg_current_snapshot() as s
),
fresh as (
  select
    o.tx, o.seq, o.id, o.kind, o.dispatch, o.queue, o.type, o.version, o.exchange,
    o.routing_key, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key,
    o.correlation_id, o.expires_at, o.enqueued_at, o.created_at, o.failures
  from waybill.outbox as o
  where o.tx >= pg_snapshot_xmax($1::pg_snapshot)
    and o.tx < pg_snapshot_xmax((select e.s from edge as e))
    and pg_visible_in_snapshot(o.tx, (select e.s from edge as e))
  order by o.tx, o.seq
  limit $2::integer
),
page as materialized (
  select
    f.*,
    sum(octet_length(f.payload)) over (order by f.tx, f.seq rows unbounded preceding) as bytes
  from fresh as f
)
select
  e.s::text as snapshot, (select count(*)::integer from page) as scanned, null::text as upto,
  null::text as tx, null::text as seq, null::text as id, null::text as kind,
  null::integer as dispatch, null::text as queue, null::text as type,
  null::integer as version, null::text as exchange, null::text as routing_key,
  null::text as payload, null::boolean as payload_base64, null::jsonb as headers,
  null::integer as priority, null::text as ordering_key, null::text as correlation_id,
  null::timestamptz as expires_at, null::timestamptz as enqueued_at,
  null::timestamptz as created_at, null::integer as failures
from edge as e
union all
select
  null, null, null,
  p.tx::text, p.seq::text, p.id::text, p.kind, p.dispatch, p.queue, p.type, p.version,
  p.exchange, p.routing_key, p.payload, p.payload_base64, p.headers, p.priority,
  p.ordering_key, p.correlation_id, p.expires_at, p.enqueued_at, p.created_at, p.failures
from page as p
where p.bytes - coalesce(octet_length(p.payload), 0) < $3::bigint
