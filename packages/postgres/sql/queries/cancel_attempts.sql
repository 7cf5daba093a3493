-- Ends running jobs as cancelled, after somebody asked for it. A job that is missing in the answer is
-- not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, leased, slotted}; leased is true where the delivery was acked before,
-- slotted of jobs of governed queues
--
-- Plan: inbox_pkey of one partition a row, timer_pkey of leased ones. Caller: the worker's settlements.
with given as (
  select g.id, g.queue, g.token, g.leased, g.slotted
  from jsonb_to_recordset($1::jsonb) as g (id uuid, queue text, token bigint, leased boolean, slotted boolean)
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
  returning i.id, i.queue, g.leased, g.slotted
),
unleased as (
  delete from waybill.timer as t
  using cancelled as c
  where c.leased
    and t.id = c.id
    and t.queue = c.queue
    and t.kind = 'job'
    and t.reason = 'lease'
),
unslotted as (
  delete from waybill.slot as s
  using cancelled as c
  where c.slotted
    and s.id = c.id
    and s.queue = c.queue
  returning s.id, s.queue
),
news as (
  insert into waybill.freed (queue, ended)
  select u.queue, array_agg(u.id)
  from unslotted as u
  group by u.queue
)
select c.id::text as id, c.queue
from cancelled as c
