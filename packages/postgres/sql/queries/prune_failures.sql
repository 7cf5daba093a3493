-- Deletes rows of failure older than the retention.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: failure_failed_at_idx. Caller: the relay's pruner.
with old as materialized (
  select t.failure_id
  from waybill.failure as t
  where t.failed_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  order by t.failed_at
  limit $2::integer
)
delete from waybill.failure as t
using old as o
where t.failure_id = o.failure_id
