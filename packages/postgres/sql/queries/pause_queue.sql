-- Pauses a queue. One that is paused already keeps its pause, and no row comes back.
-- 1: queue, 2: actor, 3: reason, or ''.
-- Plan: queue_pkey. Caller: queues.ts.
with input as materialized (
  select $1::text as name, $2::text as actor, nullif($3::text, '') as reason
),
paused as (
  insert into waybill.queue as q (name, paused_at, paused_by, pause_reason)
  select n.name, clock_timestamp(), n.actor, n.reason
  from input as n
  on conflict (name) do update
  set paused_at = excluded.paused_at,
      paused_by = excluded.paused_by,
      pause_reason = excluded.pause_reason,
      changed_at = clock_timestamp()
  where q.paused_at is null
  returning q.name
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select n.actor, 'pause', p.name, n.reason
  from paused as p
  cross join input as n
)
select p.name
from paused as p
