-- Ends running jobs as cancelled, after somebody asked for it. A job that is missing in the answer is
-- not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, leased}; leased is true where the delivery was acked before
--
-- Plan: inbox_pkey of one partition a row, timer_pkey of leased ones. Caller: the worker's settlements.
with given as (
  select g.id, g.queue, g.token, g.leased
  from jsonb_to_recordset($1::jsonb) as g (id uuid, queue text, token bigint, leased boolean)
),
cancelled as (
  update waybill.inbox as i
  set state = 'cancelled',
      finished_at = clock_timestamp()
  from given as g
  where i.id = g.id
    and i.queue = g.queue
    and i.token = g.token
    and i.state = 'running'
  returning i.id, i.queue, g.leased
),
unleased as (
  delete from waybill.timer as t
  using cancelled as c
  where c.leased
    and t.id = c.id
    and t.queue = c.queue
    and t.kind = 'job'
    and t.reason = 'lease'
)
select c.id::text as id, c.queue
from cancelled as c
