-- Running jobs that their lease alone protects, since their message was acked, by queue: how many,
-- and those whose owner has been dead for more than a minute, which the relay's sweep should have
-- dispatched again. Of an owner without a row nobody knows when it died: the lease's age counts.
-- Plan: reads the timers. Caller: waybill doctor.
with lease as materialized (
  select
    t.id,
    t.queue,
    case
      when waybill.worker_alive(t.owner) then null
      when w.id is null then t.created_at
      else least(w.lease_until, w.heartbeat_at + coalesce(w.heartbeat_ms, 0) * interval '1 millisecond')
    end as orphan_since
  from waybill.timer as t
  left join waybill.worker as w on w.id = t.owner
  where t.reason = 'lease'
),
judged as (
  select l.*, coalesce(l.orphan_since < clock_timestamp() - interval '1 minute', false) as orphaned
  from lease as l
)
select
  j.queue,
  count(*)::text as count,
  (count(*) filter (where j.orphaned))::text as orphans,
  ((extract(epoch from clock_timestamp() - min(j.orphan_since)) * 1000)::bigint)::text as age,
  (array_agg(j.id::text order by j.orphan_since) filter (where j.orphaned))[1] as example
from judged as j
group by j.queue
order by j.queue
