-- Pauses a job type or a key of a queue. One that is paused already keeps its pause, and no row comes
-- back.
-- 1: queue, 2: type or key, 3: the type's name or the key, 4: actor, 5: reason, or ''.
-- Plan: queue_gate_pkey. Caller: queues.ts.
with input as materialized (
  select
    $1::text as queue, $2::text as kind, $3::text as name, $4::text as actor, nullif($5::text, '') as reason
),
paused as (
  insert into waybill.queue_gate as g (queue, kind, name, paused_at, paused_by, pause_reason)
  select n.queue, n.kind, n.name, clock_timestamp(), n.actor, n.reason
  from input as n
  on conflict (queue, kind, name) do update
  set paused_at = excluded.paused_at,
      paused_by = excluded.paused_by,
      pause_reason = excluded.pause_reason
  where g.paused_at is null
  returning g.queue, g.kind, g.name
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select n.actor, 'pause', p.queue, concat(p.kind, ' ', p.name, ': ' || n.reason)
  from paused as p
  cross join input as n
)
select p.name
from paused as p
