-- Deletes old ended jobs from the inbox's default partition, but for those with a dead letter, which may be
-- retried yet.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: reads inbox_default, which is kept small. Caller: the relay's pruner.
with old as materialized (
  select i.id, i.queue
  from waybill.inbox_default as i
  where i.finished_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and not (
      i.state = 'failed'
      and exists (select from waybill.dead_letter as d where d.id = i.id and d.queue = i.queue)
    )
  limit $2::integer
)
delete from waybill.inbox_default as i
using old as o
where i.id = o.id and i.queue = o.queue
