-- Opens a breaker by hand: it stays open until it is closed by hand. No row back: nobody declared it.
-- 1: name, 2: actor, 3: reason, or ''.
-- Plan: dependency_pkey. Caller: dependencies.ts.
with input as materialized (
  select $1::text as name, $2::text as actor, $3::text as reason
),
opened as (
  update waybill.dependency as d
  set state = 'open',
      manual = true,
      reason = nullif(n.reason, ''),
      openings = 0,
      probe_at = null,
      changed_at = clock_timestamp(),
      changed_by = n.actor
  from input as n
  where d.name = n.name
  returning d.name, d.state, d.reason, d.changed_by
),
noted as (
  insert into waybill.dependency_event (dependency, state, reason, actor)
  select o.name, o.state, o.reason, o.changed_by
  from opened as o
),
audited as (
  insert into waybill.audit_log (actor, action, detail)
  select o.changed_by, 'open', concat(o.name, ': ' || o.reason)
  from opened as o
)
select o.name
from opened as o
