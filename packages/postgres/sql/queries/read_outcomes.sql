-- What became of jobs, for a worker whose statement changed nothing or whose commit got no answer.
--
-- $1 JSON array of {id, queue}
--
-- Plan: inbox_pkey of one partition a row. Caller: the worker's settlements.
with asked as (
  select a.id, a.queue
  from jsonb_to_recordset($1::jsonb) as a (id uuid, queue text)
)
select i.id::text as id, i.queue, i.state, i.token::text as token, i.deaths, i.attempt
from asked as a
join waybill.inbox as i on i.id = a.id and i.queue = a.queue
