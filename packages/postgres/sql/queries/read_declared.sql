-- Settings of queues as they were declared last.
--
-- $1 JSON array of queues
--
-- Plan: queue_pkey. Caller: a worker's start.
select q.name, q.declared::text as declared
from waybill.queue as q
where q.name in (select jsonb_array_elements_text($1::jsonb))
