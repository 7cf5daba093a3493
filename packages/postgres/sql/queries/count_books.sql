-- The books: every job and every delivery of an event that the database knows, by queue and by what brings
-- it forward. One row back for each queue and category, and one with the category '' for each audited queue.
-- "unaccounted" is what nothing brings forward: published and unclaimed behind the place that the auditor
-- has proven, or waiting for a retry that is nowhere.
-- 1: the name of one queue, or '' for all.
-- Reads the keys of every job there is: for people, not for a loop. Plan: index-only or sequential scans;
-- the rest by primary keys, for jobs that have not ended. Caller: audit.ts.
with input as materialized (
  select $1::text as name
),
published as materialized (
  select r.snapshot from waybill.relay as r where r.shard = 0
),
known as (
  select i.id, i.queue from waybill.inbox as i
  union
  select o.id, o.queue from waybill.outbox as o where o.kind = 'job'
  union
  select t.id, t.queue from waybill.timer as t where t.kind = 'job'
  union
  select o.id, b.queue
  from waybill.outbox as o
  join waybill.subscription as b on b.event = o.type and o.created_at > b.since
  where o.kind = 'event'
),
sorted as (
  select
    k.queue,
    case
      when i.state in ('succeeded', 'failed', 'cancelled') then i.state
      when i.state = 'running' then case when waybill.worker_alive(i.owner) then 'running' else 'takeover' end
      else coalesce(
        (
          select case
            when t.reason in ('delay', 'retry', 'lost', 'orphan') then t.reason else 'parked'
          end
          from waybill.timer as t
          where t.id = k.id and t.queue = k.queue and t.kind = 'job'
          order by t.dispatch desc
          limit 1
        ),
        (select 'backlog' from waybill.backlog as b where b.id = k.id and b.queue = k.queue),
        (select 'dispatched' from waybill.slot as s where s.id = k.id and s.queue = k.queue and not s.waiting),
        (
          select case
            when not coalesce(pg_visible_in_snapshot(o.tx, (select p.snapshot from published as p)), false) then 'unpublished'
            when i.dispatch >= o.dispatch or pg_visible_in_snapshot(o.tx, a.since) then 'unaccounted'
            else 'published'
          end
          from waybill.outbox as o
          left join waybill.audit as a on a.queue = k.queue
          where o.id = k.id and (o.kind = 'event' or (o.kind = 'job' and o.queue = k.queue))
          order by o.kind = 'job' desc, o.dispatch desc, o.tx desc, o.seq desc
          limit 1
        ),
        -- A foreign message that was handed back: the broker has it, and nothing here can tell.
        'foreign'
      )
    end as category
  from known as k
  cross join input as n
  left join waybill.inbox as i on i.id = k.id and i.queue = k.queue
  where n.name in ('', k.queue)
)
select s.queue, s.category, count(*)::text as jobs
from sorted as s
group by s.queue, s.category
union all
select a.queue, '', a.dispatched::text
from waybill.audit as a
cross join input as n
where n.name in ('', a.queue)
order by queue, category
