-- Queues that something was said about, and those that living workers consume, as JSON: what holds for
-- each, and how much of it waits and is dispatched.
-- 1: the name of one queue, or '' for all.
-- Plan: backlog_lane_idx; the other tables are small and read as a whole. Caller: queues.ts.
with input as materialized (
  select $1::text as name
),
alive as materialized (
  select w.id, w.queues
  from waybill.worker as w
  where waybill.worker_alive(w.id)
),
known as (
  select q.name from waybill.queue as q
  union
  select g.queue from waybill.queue_gate as g
  union
  select unnest(a.queues) from alive as a
),
waiting as (
  select b.queue, count(*) as jobs
  from waybill.backlog as b
  cross join input as n
  where n.name in ('', b.queue)
  group by b.queue
),
dispatched as (
  select
    s.queue,
    count(*) filter (where not s.waiting) as jobs,
    count(*) filter (where s.waiting) as blocked
  from waybill.slot as s
  cross join input as n
  where n.name in ('', s.queue)
  group by s.queue
),
gates as (
  select
    g.queue,
    count(*) filter (where g.kind = 'type' and g.paused_at is not null) as types,
    count(*) filter (where g.kind = 'key' and g.paused_at is not null) as keys
  from waybill.queue_gate as g
  group by g.queue
),
shares as (
  select w.queue, sum(w.concurrency) as capacity
  from waybill.worker_queue as w
  join alive as a on a.id = w.worker
  group by w.queue
)
select (
    jsonb_build_object(
      'name', k.name,
      'governed', coalesce(q.governed, false),
      'declared', coalesce(q.declared, '{}'),
      'overrides', coalesce(q.overrides, '{}'),
      'settings', coalesce(q.settings, '{}'),
      'paused_at', q.paused_at,
      'paused_by', q.paused_by,
      'pause_reason', q.pause_reason,
      'closed_until', case when q.closed_until > clock_timestamp() then q.closed_until end,
      'closed_reason', case when q.closed_until > clock_timestamp() then q.closed_reason end,
      'changed_at', q.changed_at,
      'waiting', coalesce(b.jobs, 0),
      'dispatched', coalesce(d.jobs, 0),
      'blocked', coalesce(d.blocked, 0),
      'paused_types', coalesce(g.types, 0),
      'paused_keys', coalesce(g.keys, 0),
      'workers', (select count(*) from alive as a where k.name = any (a.queues)),
      'capacity', s.capacity
    )
  )::text as queue
from known as k
cross join input as n
left join waybill.queue as q on q.name = k.name
left join waiting as b on b.queue = k.name
left join dispatched as d on d.queue = k.name
left join gates as g on g.queue = k.name
left join shares as s on s.queue = k.name
where n.name in ('', k.name)
order by k.name
limit 10000
