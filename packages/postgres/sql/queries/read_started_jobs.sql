-- Which dispatches a worker has claimed, and how many milliseconds ago.
--
-- $1 JSON array of {i, q, d}: id, queue, dispatch
--
-- Plan: inbox_pkey of one partition a row. Caller: the relay's governor, for queues with a rate.
select i.id::text as id, i.queue,
  greatest(0, extract(epoch from clock_timestamp() - i.started_at) * 1000)::double precision as ago_ms
from jsonb_to_recordset(($1::text)::jsonb) as r (i uuid, q text, d integer)
join waybill.inbox as i on i.id = any (array[r.i]) and i.queue is not distinct from r.q
where i.dispatch >= r.d
  and i.started_at is not null
