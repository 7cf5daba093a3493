-- Closes a breaker by hand, whoever opened it, and forgets what it has counted. No row back: nobody
-- declared it.
-- 1: name, 2: actor, 3: reason, or ''.
-- Plan: dependency_pkey. Caller: dependencies.ts.
with input as materialized (
  select $1::text as name, $2::text as actor, $3::text as reason
),
closed as (
  update waybill.dependency as d
  set state = 'closed',
      manual = false,
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
  select c.name, c.state, c.reason, c.changed_by
  from closed as c
),
audited as (
  insert into waybill.audit_log (actor, action, detail)
  select c.changed_by, 'close', concat(c.name, ': ' || c.reason)
  from closed as c
)
select c.name
from closed as c
