-- Running jobs whose owner has been dead for more than a minute and that nobody has taken over, by
-- queue: how many, since when (in milliseconds), and the oldest one. Of an owner without a row nobody
-- knows when it died: the attempt's start counts.
-- Plan: reads the workers, then the inbox, about a second for a million jobs. Caller: waybill doctor.
with known as materialized (
  select
    w.id,
    case
      when waybill.worker_alive(w.id) then null
      else least(w.lease_until, w.heartbeat_at + coalesce(w.heartbeat_ms, 0) * interval '1 millisecond')
    end as dead_since
  from waybill.worker as w
),
stale as (
  select i.id, i.queue, case when k.id is null then i.started_at else k.dead_since end as since
  from waybill.inbox as i
  left join known as k on k.id = i.owner
  where i.state = 'running'
)
select
  s.queue,
  count(*)::text as count,
  ((extract(epoch from clock_timestamp() - min(s.since)) * 1000)::bigint)::text as age,
  (array_agg(s.id::text order by s.since))[1] as example
from stale as s
where s.since < clock_timestamp() - interval '1 minute'
group by s.queue
order by s.queue
