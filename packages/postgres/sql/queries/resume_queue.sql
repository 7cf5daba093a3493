-- Lets a queue go on: its pause ends, and a tap that a handler closed is open. Where it is neither
-- paused nor closed, no row comes back.
-- 1: queue, 2: actor, 3: reason, or ''.
-- Plan: queue_pkey. Caller: queues.ts.
with input as materialized (
  select $1::text as name, $2::text as actor, nullif($3::text, '') as reason
),
resumed as (
  update waybill.queue as q
  set paused_at = null,
      paused_by = null,
      pause_reason = null,
      closed_until = null,
      closed_reason = null,
      changed_at = clock_timestamp()
  from input as n
  where q.name = n.name
    and (q.paused_at is not null or q.closed_until > clock_timestamp())
  returning q.name
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select n.actor, 'resume', r.name, n.reason
  from resumed as r
  cross join input as n
)
select r.name
from resumed as r
