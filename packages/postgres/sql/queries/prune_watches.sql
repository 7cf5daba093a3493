-- Deletes watches whose lease has been over for a while.
--
-- $1 milliseconds since then, $2 rows at most
--
-- Plan: reads watch, which holds what is watched now. Caller: the relay's pruner.
with old as materialized (
  select w.id, w.watcher
  from waybill.watch as w
  where w.lease_until < statement_timestamp() - $1::double precision * interval '1 millisecond'
  limit $2::integer
)
delete from waybill.watch as w
using old as o
where w.id = o.id
  and w.watcher = o.watcher
  -- It may have been renewed meanwhile.
  and w.lease_until < statement_timestamp() - $1::double precision * interval '1 millisecond'
