-- Lets a job type or a key of a queue go on: its pause ends, and a tap that a handler closed is open.
-- Where it is neither paused nor closed, no row comes back. What says nothing any more is deleted.
-- 1: queue, 2: type or key, 3: the type's name or the key, 4: actor, 5: reason, or ''.
-- Plan: queue_gate_pkey. Caller: queues.ts.
with input as materialized (
  select
    $1::text as queue, $2::text as kind, $3::text as name, $4::text as actor, nullif($5::text, '') as reason
),
deleted as (
  delete from waybill.queue_gate as g
  using input as n
  where g.queue = n.queue
    and g.kind = n.kind
    and g.name = n.name
    and g.tier is null
    and (g.paused_at is not null or g.closed_until > clock_timestamp())
  returning g.queue, g.kind, g.name
),
updated as (
  update waybill.queue_gate as g
  set paused_at = null,
      paused_by = null,
      pause_reason = null,
      closed_until = null,
      closed_reason = null
  from input as n
  where g.queue = n.queue
    and g.kind = n.kind
    and g.name = n.name
    and g.tier is not null
    and (g.paused_at is not null or g.closed_until > clock_timestamp())
  returning g.queue, g.kind, g.name
),
resumed as (
  select d.queue, d.kind, d.name from deleted as d
  union all
  select u.queue, u.kind, u.name from updated as u
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select n.actor, 'resume', r.queue, concat(r.kind, ' ', r.name, ': ' || n.reason)
  from resumed as r
  cross join input as n
)
select r.name
from resumed as r
