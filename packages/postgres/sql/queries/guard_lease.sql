-- Holds a running job's row until the end of the application's transaction, so that nobody can take
-- the job over before the commit. No row back: the job is not this attempt's any more, roll back.
--
-- $1 id, $2 queue, $3 token
--
-- Runs on the application's transaction, last. Plan: inbox_pkey. Caller: job.transaction.
select i.token::text as token
from waybill.inbox as i
where i.id = ($1::text)::uuid
  and i.queue = $2::text
  and i.token = ($3::text)::bigint
  and i.state = 'running'
for share
