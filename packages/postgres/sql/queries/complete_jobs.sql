-- Ends a batch of running jobs as succeeded and stores what they gave back. A job that is missing
-- in the answer is not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, result}; result is JSON text, or null for none
--
-- Plan: inbox_pkey of one partition a row. Caller: the worker's settlements.
with done as (
  select d.id, d.queue, d.token, d.result
  from jsonb_to_recordset($1::jsonb) as d (id uuid, queue text, token bigint, result text)
),
completed as (
  update waybill.inbox as i
  set state = 'succeeded',
      finished_at = clock_timestamp()
  from done as d
  where i.id = d.id
    and i.queue = d.queue
    and i.token = d.token
    and i.state = 'running'
  returning i.id, i.queue, d.result
),
stored as (
  insert into waybill.result as r (id, queue, result)
  select c.id, c.queue, c.result
  from completed as c
  where c.result is not null
  on conflict (id, queue) do update
  set result = excluded.result,
      created_at = excluded.created_at
)
select c.id::text as id, c.queue
from completed as c
