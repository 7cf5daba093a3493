-- Says which events each subscription of a worker receives. What it received already keeps its time; what
-- it does not receive any more is forgotten.
--
-- $1 JSON array of {queue, events}
--
-- Plan: subscription_pkey. Caller: a worker's start.
with said as materialized (
  select s.queue, e.event
  from jsonb_to_recordset(($1::text)::jsonb) as s (queue text, events jsonb)
  cross join lateral jsonb_array_elements_text(s.events) as e (event)
),
dropped as (
  delete from waybill.subscription as b
  where b.queue in (select s.queue from said as s)
    and not exists (select from said as s where s.queue = b.queue and s.event = b.event)
)
insert into waybill.subscription (queue, event)
select s.queue, s.event
from said as s
order by s.queue, s.event
on conflict (queue, event) do nothing
returning queue, event
