-- Deletes the rows of workers that died long ago.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Caller: the relay's pruner.
with old as materialized (
  select w.id
  from waybill.worker as w
  where w.lease_until < statement_timestamp() - $1::double precision * interval '1 millisecond'
  limit $2::integer
)
delete from waybill.worker as w
using old as o
where w.id = o.id
