-- Ends a batch of running jobs as succeeded and stores what they gave back. A job that is missing
-- in the answer is not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, result, leased, slotted, ran}; result is JSON text, or null for none; leased
-- is true where the delivery was acked before, so that a lease is to be deleted; slotted of jobs of governed
-- queues, which give their slot back; ran is how long the handler ran, in milliseconds: the time between claim
-- and end would have the way of both in it
--
-- Plan: inbox_pkey of one partition a row, timer_pkey of leased and slot_pkey of slotted ones, whatever the planner
-- thinks of their number (see dispatch_round.sql). Caller: the worker's settlements.
with done as (
  select d.id, d.queue, d.token, d.result, d.leased, d.slotted, d.ran
  from jsonb_to_recordset($1::jsonb) as d (
    id uuid, queue text, token bigint, result text, leased boolean, slotted boolean, ran double precision
  )
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
  returning i.id, i.queue, d.result, d.leased, d.slotted, d.ran
),
stored as (
  insert into waybill.result as r (id, queue, result)
  select c.id, c.queue, c.result
  from completed as c
  where c.result is not null
  on conflict (id, queue) do update
  set result = excluded.result,
      created_at = excluded.created_at
),
unleased as (
  delete from waybill.timer as t
  using completed as c
  where c.leased
    and t.id = c.id
    and t.queue = c.queue
    and t.kind = 'job'
    and t.reason = 'lease'
),
unslotted as (
  delete from waybill.slot as s
  using completed as c
  where c.slotted
    and s.id = any (array[c.id])
    and s.queue = c.queue
  returning s.id, s.queue, c.ran
),
news as (
  insert into waybill.freed (queue, ended, run_ms)
  select u.queue, array_agg(u.id), coalesce(sum(u.ran), 0)
  from unslotted as u
  group by u.queue
)
select c.id::text as id, c.queue
from completed as c
