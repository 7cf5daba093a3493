-- Gives back slots whose job has ended: nothing should ever leave one, and if something does, it must not
-- hold a limit for ever. One row back for each queue.
--
-- "any (array[…])" keeps the planner from beginning at a table that it has seen empty (see dispatch_round.sql).
-- Plan: the whole table of slots, inbox_pkey a row. Caller: the relay's governor, now and then.
with dead as (
  delete from waybill.slot as s
  using waybill.inbox as i
  where i.id = any (array[s.id])
    and i.queue is not distinct from s.queue
    and i.state in ('succeeded', 'failed', 'cancelled')
    and i.finished_at < clock_timestamp() - interval '10 seconds'
  returning s.id, s.queue
)
insert into waybill.freed (queue, ended)
select d.queue, array_agg(d.id)
from dead as d
group by d.queue
returning queue, cardinality(ended) as slots
