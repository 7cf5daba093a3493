-- Rows of the backlog that somebody has changed, as they are now.
--
-- $1 JSON array of {id, queue}
--
-- "any (array[…])" keeps the planner from beginning at a table that it has seen empty (see dispatch_round.sql).
-- Plan: backlog_pkey. Caller: the relay's governor.
select
  b.id::text as id, b.queue, b.place::text as place, b.key, b.ordering_key, b.type, b.priority, b.dispatch
from jsonb_to_recordset(($1::text)::jsonb) as c (id uuid, queue text)
join waybill.backlog as b on b.id = any (array[c.id]) and b.queue is not distinct from c.queue
