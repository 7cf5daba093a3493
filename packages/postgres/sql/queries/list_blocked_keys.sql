-- Ordering keys whose first job keeps others waiting, or waits for its retry, as JSON, the longest blocked
-- first: the job, where it is, what stops it, and how many wait behind it.
-- 1: queue, or '' for all, 2: rows at most.
-- Plan: the slots as a whole, which are as few as the limits; backlog_lane_idx, inbox_pkey, timer_pkey a
-- row. Caller: job-explaining.ts.
with input as materialized (
  select $1::text as queue, ($2::text)::bigint as rows_max
),
heads as materialized (
  select s.id, s.queue, s.ordering_key, s.type, s.key, s.waiting, s.dispatched_at, behind.jobs
  from waybill.slot as s
  cross join input as n
  cross join lateral (
    select count(*) as jobs
    from (
      select
      from waybill.backlog as b
      where b.queue = s.queue
        and b.lane = '=' || s.ordering_key
        and b.id <> s.id
      limit 10000
    ) as b
  ) as behind
  where s.ordering_key is not null
    and n.queue in ('', s.queue)
    and (s.waiting or behind.jobs > 0)
  order by s.dispatched_at, s.id
  limit (select n.rows_max from input as n)
)
select jsonb_build_object(
    'queue', h.queue,
    'ordering_key', h.ordering_key,
    'id', h.id,
    'type', h.type,
    'waiting', h.waiting,
    'jobs', h.jobs,
    'dispatched_at', h.dispatched_at,
    'state', coalesce(i.state, 'queued'),
    'attempt', coalesce(i.attempt, 0),
    'started_at', i.started_at,
    'worker', w.name,
    'retry_at', t.fire_at,
    'failure_message', f.message,
    'failed_at', f.failed_at,
    'paused', case
      when q.paused_at is not null then 'queue'
      when exists (
        select from waybill.queue_gate as g
        where g.queue = h.queue and g.kind = 'type' and g.name = h.type and g.paused_at is not null
      ) then 'type'
      when exists (
        select from waybill.queue_gate as g
        where g.queue = h.queue and g.kind = 'key' and g.name = h.key and g.paused_at is not null
      ) then 'key'
    end,
    'closed_until', greatest(
      case when q.closed_until > clock_timestamp() then q.closed_until end,
      (
        select max(g.closed_until)
        from waybill.queue_gate as g
        where g.queue = h.queue
          and ((g.kind = 'type' and g.name = h.type) or (g.kind = 'key' and g.name = h.key))
          and g.closed_until > clock_timestamp()
      )
    ),
    'breaker', (
      select min(d.name)
      from waybill.dependency as d
      where d.state <> 'closed'
        and (
          coalesce(q.settings -> 'dependsOn', '[]') ? d.name
          or coalesce(q.settings #> array['types', h.type, 'dependsOn'], '[]') ? d.name
        )
    )
  )::text as blocked
from heads as h
left join waybill.queue as q on q.name = h.queue
left join waybill.inbox as i on i.id = h.id and i.queue = h.queue
left join waybill.worker as w on w.id = i.owner and i.state = 'running'
left join lateral (
  select t.fire_at
  from waybill.timer as t
  where t.id = h.id and t.queue = h.queue and t.kind = 'job' and t.reason = 'retry'
  order by t.dispatch desc
  limit 1
) as t on true
left join lateral (
  select f.message, f.failed_at
  from waybill.failure as f
  where f.id = h.id and f.queue = h.queue
  order by f.failure_id desc
  limit 1
) as f on true
order by h.dispatched_at, h.id
