-- Deletes changes of breakers older than the retention.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: dependency_event_pkey, from the oldest on. Caller: the relay's pruner.
with old as materialized (
  select e.event_id
  from waybill.dependency_event as e
  where e.at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  order by e.event_id
  limit $2::integer
)
delete from waybill.dependency_event as e
using old as o
where e.event_id = o.event_id
