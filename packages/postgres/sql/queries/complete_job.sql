-- Ends one running job as succeeded, inside the transaction of its handler: effects and outcome
-- commit together. No row back: the job is not this attempt's any more, roll back.
--
-- $1 id, $2 queue, $3 token, $4 result as JSON text, or the empty text for none
-- $5 words: 'leased' where the delivery was acked before, so that a lease is to be deleted; 'slotted' of a job
-- of a governed queue, which gives its slot back
--
-- Runs on the application's transaction. Plan: inbox_pkey. Caller: transactional handlers.
with completed as (
  update waybill.inbox as i
  set state = 'succeeded',
      finished_at = clock_timestamp()
  where i.id = ($1::text)::uuid
    and i.queue = $2::text
    and i.token = ($3::text)::bigint
    and i.state = 'running'
  returning i.id, i.queue, i.token, i.finished_at - i.started_at as took
),
stored as (
  insert into waybill.result as r (id, queue, result)
  select c.id, c.queue, g.result
  from completed as c
  cross join (select nullif($4::text, '') as result) as g
  where g.result is not null
  on conflict (id, queue) do update
  set result = excluded.result,
      created_at = excluded.created_at
),
unleased as (
  delete from waybill.timer as t
  using completed as c
  where $5::text like '%leased%'
    and t.id = c.id
    and t.queue = c.queue
    and t.kind = 'job'
    and t.reason = 'lease'
),
unslotted as (
  delete from waybill.slot as s
  using completed as c
  where $5::text like '%slotted%'
    and s.id = c.id
    and s.queue = c.queue
  returning s.id, s.queue, c.took
),
news as (
  insert into waybill.freed (queue, ended, run_ms)
  select u.queue, array[u.id], coalesce(extract(epoch from u.took) * 1000, 0)
  from unslotted as u
)
select c.token::text as token
from completed as c
