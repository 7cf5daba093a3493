-- Deletes the rows of workers that died long ago, and what is left of those whose row is gone.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Caller: the relay's pruner.
with old as materialized (
  select w.id
  from waybill.worker as w
  where w.lease_until < statement_timestamp() - $1::double precision * interval '1 millisecond'
  limit $2::integer
),
shares as (
  delete from waybill.worker_queue as s
  where s.worker in (select o.id from old as o)
    or not exists (select from waybill.worker as w where w.id = s.worker)
)
delete from waybill.worker as w
using old as o
where w.id = o.id
