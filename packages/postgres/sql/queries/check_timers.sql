-- What waits in the timers, by queue and reason: how many, how many of them only for an operator
-- (fire_at infinity), how many are overdue by more than a minute, and the newest words about them.
-- The leases of running jobs, which have no time either, are no messages that wait: check_leases.sql.
-- Caller: waybill doctor.
select
  t.queue,
  t.reason,
  count(*)::text as count,
  (count(*) filter (where t.fire_at = 'infinity'))::text as held,
  (count(*) filter (where t.fire_at < clock_timestamp() - interval '1 minute'))::text as overdue,
  (extract(epoch from clock_timestamp() - min(t.created_at)) * 1000)::bigint::text as age,
  (array_agg(t.id::text order by t.created_at desc))[1] as example,
  (array_agg(t.type order by t.created_at desc))[1] as type,
  (array_agg(t.detail order by t.created_at desc))[1] as detail
from waybill.timer as t
where t.reason <> 'lease'
group by t.queue, t.reason
order by t.queue, t.reason
