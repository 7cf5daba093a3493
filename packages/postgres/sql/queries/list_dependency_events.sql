-- Changes of a breaker, the latest first, as JSON.
-- 1: name, 2: id of the event to go on from; the largest bigint at first, 3: how many.
-- Plan: dependency_event_dependency_idx backwards with a limit. Caller: dependencies.ts.
with input as materialized (
  select $1::text as name, ($2::text)::bigint as before, ($3::text)::bigint as rows_max
)
select to_jsonb(e)::text as event
from waybill.dependency_event as e
where e.dependency = (select n.name from input as n)
  and e.event_id < (select n.before from input as n)
order by e.event_id desc
limit (select n.rows_max from input as n)
