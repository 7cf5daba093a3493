-- Holds the oldest due timer for good: the outbox refuses its row.
--
-- $1 what was wrong
--
-- Plan: timer_fire_at_idx. Caller: the relay's timers.
with due as materialized (
  select t.id, t.queue, t.kind, t.dispatch
  from waybill.timer as t
  where t.fire_at <= statement_timestamp()
  order by t.fire_at
  limit 1
  for update skip locked
)
update waybill.timer as t
set fire_at = 'infinity',
    detail = $1::text
from due as d
where t.id = d.id and t.queue = d.queue and t.kind = d.kind and t.dispatch = d.dispatch
returning t.id::text as id
