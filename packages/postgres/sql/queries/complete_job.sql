-- Ends one running job as succeeded, inside the transaction of its handler: effects and outcome
-- commit together. No row back: the job is not this attempt's any more, roll back.
--
-- $1 id, $2 queue, $3 token, $4 result as JSON text, or the empty text for none
-- $5 'leased' where the delivery was acked before, so that a lease is to be deleted; else the empty text
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
  returning i.id, i.queue, i.token
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
  where $5::text = 'leased'
    and t.id = c.id
    and t.queue = c.queue
    and t.kind = 'job'
    and t.reason = 'lease'
)
select c.token::text as token
from completed as c
