-- Deletes old ended jobs from the inbox's default partition.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: reads inbox_default, which is kept small. Caller: the relay's pruner.
with old as materialized (
  select i.id, i.queue
  from waybill.inbox_default as i
  where i.finished_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  limit $2::integer
)
delete from waybill.inbox_default as i
using old as o
where i.id = o.id and i.queue = o.queue
