-- Copies rows that could not be published into the timers, before the cursor passes them. One row
-- back for each that is parked now. Without the term: none.
--
-- $1 epoch
-- $2 JSON array of {tx, seq, reason, detail, delay_ms}; delay_ms null: until an operator says so
--
-- Plan: outbox_tx_seq_idx, timer_pkey. Caller: the relay's parking.
with durable as materialized (
  select set_config('synchronous_commit', 'on', true) as value
  where current_setting('synchronous_commit') = 'off'
),
forced as materialized (
  select count(*) as n from durable
),
failed as materialized (
  select f.tx::xid8 as tx, f.seq, f.reason, f.detail, f.delay_ms
  from jsonb_to_recordset($2::jsonb) as f (
    tx text, seq bigint, reason text, detail text, delay_ms double precision
  )
  cross join forced as d
  where d.n >= 0
    and exists (select from waybill.relay as r where r.shard = 0 and r.epoch = $1::bigint)
)
insert into waybill.timer as t (
  id, queue, kind, dispatch, fire_at, reason, detail, failures, type, version, exchange, routing_key,
  payload, payload_base64, headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
)
select distinct on (o.id, o.queue, o.kind, o.dispatch)
  o.id, coalesce(o.queue, ''), o.kind, o.dispatch,
  case
    when f.delay_ms is null then 'infinity'
    else clock_timestamp() + f.delay_ms * interval '1 millisecond'
  end,
  f.reason, f.detail, o.failures + 1, o.type, o.version, o.exchange, o.routing_key,
  o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key, o.correlation_id, o.expires_at,
  o.enqueued_at
from failed as f
cross join lateral (
  select r.* from waybill.outbox as r where r.tx = f.tx and r.seq = f.seq limit 1
) as o
order by o.id, o.queue, o.kind, o.dispatch, o.failures desc
-- A copy that waits already keeps its own time, unless it waits for the same cause.
on conflict (id, queue, kind, dispatch) do update
set fire_at = case
      when t.reason in ('unroutable', 'nacked', 'refused') then excluded.fire_at
      else least(t.fire_at, excluded.fire_at)
    end,
    reason = case
      when t.reason in ('unroutable', 'nacked', 'refused') then excluded.reason else t.reason
    end,
    detail = case
      when t.reason in ('unroutable', 'nacked', 'refused') then excluded.detail else t.detail
    end,
    failures = greatest(t.failures, excluded.failures)
returning t.id::text as id
