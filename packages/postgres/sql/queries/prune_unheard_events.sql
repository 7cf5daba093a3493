-- Deletes parked events that no subscription has taken and nobody has released.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: timer_fire_at_idx. Caller: the relay's pruner.
with old as materialized (
  select t.id, t.queue, t.kind, t.dispatch
  from waybill.timer as t
  where t.fire_at = 'infinity'
    and t.kind = 'event'
    and t.enqueued_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  limit $2::integer
)
delete from waybill.timer as t
using old as o
where t.id = o.id and t.queue = o.queue and t.kind = o.kind and t.dispatch = o.dispatch
