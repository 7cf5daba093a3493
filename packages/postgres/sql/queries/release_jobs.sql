-- Hands running jobs back without spending an attempt: their next delivery, this one included, runs
-- them at once. A job that is missing in the answer is not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, dispatch}; dispatch is that of the delivery handed back
--
-- Plan: inbox_pkey of one partition a row. Caller: the worker's shutdown and its quarantine.
with released as (
  select r.id, r.queue, r.token, r.dispatch
  from jsonb_to_recordset($1::jsonb) as r (id uuid, queue text, token bigint, dispatch integer)
)
update waybill.inbox as i
set state = 'retry_waiting',
    attempt = greatest(0, i.attempt - 1),
    dispatch = least(i.dispatch, r.dispatch) - 1,
    owner = null
from released as r
where i.id = r.id
  and i.queue = r.queue
  and i.token = r.token
  and i.state = 'running'
returning i.id::text as id, i.queue
