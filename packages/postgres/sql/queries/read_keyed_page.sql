-- A page of an open window: its rows with an ordering key, in seq order. Looks at $5 rows at most,
-- whether they belong to the window or not, so that each call ends soon.
-- The first row back describes the page: scanned (rows looked at; $5 where the bytes ended it), upto
-- (place up to which all was looked at); the others are its rows.
--
-- $1 and $2 the window's lower and upper snapshot, $3 and $4 seq to begin after and to end at,
-- $5 rows to look at, $6 bytes at most
--
-- Plan: outbox_ordering_idx of every partition. Caller: the relay's window reader.
with page as materialized (
  select
    o.*,
    sum(octet_length(o.payload) * o.inside::integer)
      over (order by o.seq rows unbounded preceding) as bytes
  from (
    select
      o.tx, o.seq, o.id, o.kind, o.dispatch, o.queue, o.type, o.version, o.exchange,
      o.routing_key, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key,
      o.correlation_id, o.expires_at, o.enqueued_at, o.created_at, o.failures,
      pg_visible_in_snapshot(o.tx, $2::pg_snapshot)
        and not pg_visible_in_snapshot(o.tx, $1::pg_snapshot) as inside
    from waybill.outbox as o
    where o.ordering_key is not null
      and o.seq > $3::bigint
      and o.seq <= $4::bigint
    order by o.seq
    limit $5::integer
  ) as o
)
select
  null::text as snapshot,
  (
    select case
      when bool_or(p.bytes - octet_length(p.payload) * p.inside::integer >= $6::bigint) then $5::integer
      else count(*)::integer
    end
    from page as p
  ) as scanned,
  (
    select max(p.seq)::text
    from page as p
    where p.bytes - octet_length(p.payload) * p.inside::integer < $6::bigint
  ) as upto,
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
where p.bytes - coalesce(octet_length(p.payload), 0) < $6::bigint
  and p.inside
