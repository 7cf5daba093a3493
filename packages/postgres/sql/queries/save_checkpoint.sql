-- Saves a job's checkpoint in the transaction of the effects that it stands for, and keeps the ten
-- newest. No row back: the job is not this attempt's any more, roll back.
--
-- $1 id, $2 queue, $3 token, $4 checkpoint as JSON text
--
-- Runs on the application's transaction. Plan: inbox_pkey, checkpoint_pkey. Caller: job.saveCheckpoint.
with owned as materialized (
  select i.id, i.queue, i.attempt
  from waybill.inbox as i
  where i.id = ($1::text)::uuid
    and i.queue = $2::text
    and i.token = ($3::text)::bigint
    and i.state = 'running'
  for share
),
saved as (
  insert into waybill.checkpoint as c (id, queue, number, attempt, checkpoint)
  select
    o.id,
    o.queue,
    coalesce((select max(p.number) from waybill.checkpoint as p where p.id = o.id and p.queue = o.queue), 0) + 1,
    o.attempt,
    $4::text
  from owned as o
  returning c.id, c.queue, c.number
),
forgotten as (
  delete from waybill.checkpoint as p
  using saved as s
  where p.id = s.id
    and p.queue = s.queue
    and p.number <= s.number - 10
)
select s.number::text as number
from saved as s
