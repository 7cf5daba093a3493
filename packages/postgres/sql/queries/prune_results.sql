-- Deletes rows of result older than the retention.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: result_created_at_idx. Caller: the relay's pruner.
with old as materialized (
  select t.id, t.queue
  from waybill.result as t
  where t.created_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  order by t.created_at
  limit $2::integer
)
delete from waybill.result as t
using old as o
where t.id = o.id and t.queue = o.queue
