-- A page of an open window: rows of one transaction of $1, the first after the place ($2, $3) that has
-- any. Rows with an ordering key come without their payload; they are read by read_keyed_page.sql.
-- The first row back describes the page: snapshot, scanned (rows found); the others are its rows.
-- Rows beyond the limit of bytes are left out, but the first is always in.
--
-- $1 xids in ascending order, $2 and $3 last place (tx, seq), $4 rows at most, $5 bytes at most
--
-- Plan: outbox_tx_seq_idx of every partition. Caller: the relay's window reader.
with next as materialized (
  select x.tx
  from unnest($1::xid8[]) with ordinality as x (tx, n)
  where exists (
    select
    from waybill.outbox as o
    where o.tx = x.tx and (o.tx, o.seq) > ($2::xid8, $3::bigint)
  )
  order by x.n
  limit 1
),
page as materialized (
  select
    o.*,
    sum(coalesce(octet_length(o.payload), 0)) over (order by o.tx, o.seq rows unbounded preceding) as bytes
  from (
    select
      o.tx, o.seq, o.id, o.kind, o.dispatch, o.queue, o.type, o.version, o.exchange,
      o.routing_key, case when o.ordering_key is null then o.payload end as payload,
      o.payload_base64, o.headers, o.priority, o.ordering_key, o.correlation_id,
      o.expires_at, o.enqueued_at, o.created_at, o.failures
    from waybill.outbox as o
    where o.tx = (select n.tx from next as n)
      and (o.tx, o.seq) > ($2::xid8, $3::bigint)
    order by o.tx, o.seq
    limit $4::integer
  ) as o
)
select
  null::text as snapshot, (select count(*)::integer from page) as scanned, null::text as upto,
  null::text as tx, null::text as seq, null::text as id, null::text as kind,
  null::integer as dispatch, null::text as queue, null::text as type,
  null::integer as version, null::text as exchange, null::text as routing_key,
  null::text as payload, null::boolean as payload_base64, null::jsonb as headers,
  null::integer as priority, null::text as ordering_key, null::text as correlation_id,
  null::timestamptz as expires_at, null::timestamptz as enqueued_at,
  null::timestamptz as created_at, null::integer as failures
union all
select
  null, null, null,
  p.tx::text, p.seq::text, p.id::text, p.kind, p.dispatch, p.queue, p.type, p.version,
  p.exchange, p.routing_key, p.payload, p.payload_base64, p.headers, p.priority,
  p.ordering_key, p.correlation_id, p.expires_at, p.enqueued_at, p.created_at, p.failures
from page as p
where p.bytes - coalesce(octet_length(p.payload), 0) < $5::bigint
