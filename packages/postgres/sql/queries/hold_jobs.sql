-- Lets running jobs go on without their deliveries: each gets a lease, a timer that fires when its
-- worker dies, after which its delivery may be acked. A job that is missing in the answer is not this
-- attempt's any more; its delivery must not be acked.
--
-- $1 JSON array of
--   id, queue, token
--   type, version, payload, payload_base64, headers, priority, ordering_key, correlation_id,
--   expires_at, enqueued_at        the envelope
--
-- The row is locked, so that an end that comes at the same time is seen as a whole or not at all.
-- Plan: inbox_pkey of one partition a row, timer_pkey. Caller: the worker's deliveries.
with given as (
  select g.*
  from jsonb_to_recordset(($1::text)::jsonb) as g (
    id uuid, queue text, token bigint,
    type text, version integer, payload text, payload_base64 boolean, headers jsonb,
    priority integer, ordering_key text, correlation_id text,
    expires_at timestamptz, enqueued_at timestamptz
  )
),
owned as materialized (
  select i.dispatch, i.owner, g.*
  from given as g
  join waybill.inbox as i on i.id = g.id and i.queue = g.queue
  where i.token = g.token
    and i.state = 'running'
  for share of i
)
insert into waybill.timer as t (
  id, queue, kind, dispatch, fire_at, reason, detail, owner, type, version, payload, payload_base64,
  headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
)
select
  o.id, o.queue, 'job', o.dispatch + 1, 'infinity', 'lease', 'runs without a delivery', o.owner, o.type,
  o.version, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key, o.correlation_id,
  o.expires_at, coalesce(o.enqueued_at, clock_timestamp())
from owned as o
-- A copy that was held back, or the lease of a dead worker that this one has taken over from.
on conflict (id, queue, kind, dispatch) do update
set fire_at = excluded.fire_at,
    reason = excluded.reason,
    detail = excluded.detail,
    owner = excluded.owner,
    parked_at = null
returning t.id::text as id, t.queue
