-- Messages that wait for a worker that knows their type and version, by queue, type and version: how
-- many, since when (in milliseconds), how many of them only for an operator, and the oldest one.
-- Plan: reads the timers. Caller: waybill doctor.
select
  t.queue,
  t.type,
  t.version::text as version,
  count(*)::text as count,
  (count(*) filter (where t.fire_at = 'infinity'))::text as held,
  ((extract(epoch from clock_timestamp() - min(coalesce(t.parked_at, t.created_at))) * 1000)::bigint)::text as age,
  (array_agg(t.id::text order by coalesce(t.parked_at, t.created_at)))[1] as example
from waybill.timer as t
where t.reason = 'no_handler'
group by t.queue, t.type, t.version
order by t.queue, t.type, t.version
limit 100
