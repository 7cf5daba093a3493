-- Jobs by queue and state. Reads the keys of every job there is: for people and dashboards, not for
-- a loop. Plan: index-only or sequential scans, one hash anti join. Caller: jobs.ts.
select c.queue, c.state, sum(c.jobs)::text as jobs
from (
  select i.queue, i.state, count(*) as jobs
  from waybill.inbox as i
  group by i.queue, i.state
  union all
  select w.queue, 'queued', count(*)
  from (
    select o.id, o.queue from waybill.outbox as o where o.kind = 'job' and o.dispatch = 1
    union
    select t.id, t.queue from waybill.timer as t where t.kind = 'job' and t.dispatch = 1 and t.reason = 'delay'
  ) as w
  where not exists (select from waybill.inbox as i where i.id = w.id and i.queue = w.queue)
  group by w.queue
) as c
group by c.queue, c.state
order by c.queue, c.state
