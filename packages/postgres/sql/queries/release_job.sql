-- Lets messages of a job, event or route that wait go at once: delayed ones and retries, those that the
-- broker or the workers refused, and whatever waits for an operator. The lease of a running job has no time either, but it
-- is no message that waits: released, it would run the job a second time. One row back for each.
-- 1: id, 2: queue, or '' for all, 3: actor, 4: reason.
-- Plan: timer_pkey. Caller: jobs.ts.
with input as materialized (
  select ($1::text)::uuid as id, $2::text as queue, $3::text as actor, $4::text as reason
),
released as (
  update waybill.timer as t
  set fire_at = clock_timestamp(),
      parked_at = null
  from input as n
  where t.id = n.id
    and n.queue in ('', t.queue)
    and t.reason <> 'lease'
    and (t.fire_at = 'infinity' or t.reason in ('delay', 'retry', 'no_handler', 'unroutable', 'nacked', 'refused', 'lost'))
  returning t.id, t.queue, t.reason
),
noted as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select n.actor, 'release', r.id, nullif(r.queue, ''), coalesce(nullif(n.reason, ''), r.reason)
  from released as r
  cross join input as n
)
select r.queue, r.reason
from released as r
