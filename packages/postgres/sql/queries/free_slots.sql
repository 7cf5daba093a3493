-- Gives back the slots of deliveries that run nothing: their job has ended, that very dispatch of it was
-- claimed and is over, or the message was parked because no worker here knows its type. A parked head of an
-- ordering key goes on blocking its key.
--
-- $1 JSON array of {id, queue, dispatch, parked}
--
-- "any (array[…])" keeps the planner from beginning at a table that it has seen empty (see dispatch_round.sql).
-- Plan: slot_pkey, inbox_pkey of one partition a row. Caller: the worker's claims and parking.
with idle as materialized (
  select s.id, s.queue, g.parked and s.ordering_key is not null and i.id is null as waits
  from jsonb_to_recordset($1::jsonb) as g (id uuid, queue text, dispatch integer, parked boolean)
  join waybill.slot as s on s.id = any (array[g.id]) and s.queue = g.queue
  left join waybill.inbox as i on i.id = any (array[g.id]) and i.queue = g.queue
  where not s.waiting
    and (
      i.state in ('succeeded', 'failed', 'cancelled')
      or (i.state = 'retry_waiting' and i.dispatch >= s.dispatch)
      or (g.parked and s.dispatch = g.dispatch and i.state is distinct from 'running')
    )
  for update of s
),
waits as (
  update waybill.slot as s
  set waiting = true
  from idle as d
  where d.waits and s.id = d.id and s.queue = d.queue
  returning s.id, s.queue
),
unslotted as (
  delete from waybill.slot as s
  using idle as d
  where not d.waits and s.id = d.id and s.queue = d.queue
  returning s.id, s.queue
)
insert into waybill.freed (queue, ended, waiting)
select
  u.queue,
  coalesce(array_agg(u.id) filter (where not u.waits), '{}'),
  coalesce(array_agg(u.id) filter (where u.waits), '{}')
from (
  select s.id, s.queue, false as waits from unslotted as s
  union all
  select s.id, s.queue, true from waits as s
) as u
group by u.queue
returning queue, cardinality(ended) as slots
