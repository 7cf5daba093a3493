-- Asks workers to drain or to restart. A worker that is to restart is not asked to stay by a later
-- drain. Workers that are dead by now are left out; one row back for each that was asked.
-- 1: drain or restart, 2: JSON array of worker ids, 3: actor, 4: reason, or ''.
-- Plan: worker_pkey. Caller: workers.ts.
with input as materialized (
  select $1::text as request, ($2::text)::jsonb as ids, $3::text as actor, $4::text as reason
),
asked as (
  update waybill.worker as w
  set stop_requested = case when w.stop_requested in ('restart', n.request) then w.stop_requested else n.request end,
      stop_requested_at = case
        when w.stop_requested in ('restart', n.request) then w.stop_requested_at
        else clock_timestamp()
      end,
      stop_requested_by = case when w.stop_requested in ('restart', n.request) then w.stop_requested_by else n.actor end
  from input as n
  where w.id in (select e.id::uuid from jsonb_array_elements_text(n.ids) as e (id))
    and waybill.worker_alive(w.id)
  returning w.id, w.name
),
noted as (
  insert into waybill.audit_log (actor, action, detail)
  select n.actor, n.request, concat(a.name, ' (', a.id, ')', ': ' || nullif(n.reason, ''))
  from asked as a
  cross join input as n
)
select a.id::text as id
from asked as a
