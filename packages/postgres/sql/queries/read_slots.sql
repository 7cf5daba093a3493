-- Every slot, at the start of a term.
--
-- Plan: the whole table, which is as small as the limits. Caller: the relay's governor.
select
  s.id::text as id, s.queue, s.place::text as place, s.key, s.ordering_key, s.type, s.priority,
  s.dispatch, s.waiting
from waybill.slot as s
