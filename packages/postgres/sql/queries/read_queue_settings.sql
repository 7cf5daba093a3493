-- What was said of a queue's settings, and which dependencies there are.
-- 1: queue.
-- One row back.
-- Plan: queue_pkey; the dependencies, which are few. Caller: queues.ts.
select
  coalesce(q.declared, '{}'::jsonb)::text as declared,
  coalesce(q.overrides, '{}'::jsonb)::text as overrides,
  (select coalesce(jsonb_agg(d.name order by d.name), '[]'::jsonb) from waybill.dependency as d)::text as dependencies
from (select $1::text as name) as n
left join waybill.queue as q on q.name = n.name
