-- Queues that are paused, or whose tap is closed, and the same of their types and keys. Times are in
-- milliseconds.
--
-- Plan: reads queue and queue_gate, which hold what somebody once said something about. Caller: waybill
-- doctor.
select
  q.name as queue,
  null as kind,
  null as name,
  ((extract(epoch from clock_timestamp() - q.paused_at) * 1000)::bigint)::text as paused,
  q.paused_by as pauser,
  ((extract(epoch from q.closed_until - clock_timestamp()) * 1000)::bigint)::text as closed
from waybill.queue as q
where q.paused_at is not null
  or q.closed_until > clock_timestamp()
union all
select
  g.queue,
  g.kind,
  g.name,
  ((extract(epoch from clock_timestamp() - g.paused_at) * 1000)::bigint)::text,
  g.paused_by,
  ((extract(epoch from g.closed_until - clock_timestamp()) * 1000)::bigint)::text
from waybill.queue_gate as g
where g.paused_at is not null
  or g.closed_until > clock_timestamp()
order by queue, kind nulls first, name
limit 1000
