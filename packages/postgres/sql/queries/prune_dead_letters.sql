-- Deletes rows of dead_letter older than the retention.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: dead_letter_died_at_idx. Caller: the relay's pruner.
with old as materialized (
  select t.id, t.queue
  from waybill.dead_letter as t
  where t.died_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  order by t.died_at
  limit $2::integer
)
delete from waybill.dead_letter as t
using old as o
where t.id = o.id and t.queue = o.queue
