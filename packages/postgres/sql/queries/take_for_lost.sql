-- Takes everything for lost that was published and that no worker has claimed: the relay's auditor
-- dispatches it again. One row back for each queue.
--
-- 1: epoch that holds the term, or '': whoever holds it; then the marker stays. 2: JSON array of queues, or
-- '' for all. 3: actor. 4: why, in words.
--
-- Plan: audit_pkey, relay_pkey. Caller: the relay's auditor, where the broker's marker is gone; waybill
-- reconcile.
with input as materialized (
  select nullif($1::text, '')::bigint as epoch, nullif($2::text, '')::jsonb as queues, $3::text as actor, $4::text as why
),
term as materialized (
  select r.snapshot, n.epoch, n.queues, n.actor, n.why
  from waybill.relay as r
  cross join input as n
  where r.shard = 0
    and r.snapshot is not null
    and (n.epoch is null or r.epoch = n.epoch)
),
unmarked as (
  update waybill.relay as r
  set marker = null
  from term as t
  where r.shard = 0 and t.epoch is not null
),
taken as (
  update waybill.audit as a
  set lost = t.snapshot,
      lost_at = clock_timestamp(),
      lost_why = t.why
  from term as t
  where t.queues is null or t.queues ? a.queue
  returning a.queue, t.actor, t.why
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select k.actor, 'reconcile', k.queue, k.why
  from taken as k
)
select k.queue
from taken as k
order by k.queue
