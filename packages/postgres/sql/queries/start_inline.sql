-- Marks a job as running without a worker, so that it can be ended as one that was claimed.
--
-- $1 id, $2 queue, $3 type, $4 attempt, $5 when it was enqueued, in milliseconds since 1970, $6 event
-- to publish when it ends, or the empty text
--
-- Runs on the application's transaction. Plan: inbox_pkey. Caller: drainJobs of the testing package.
insert into waybill.inbox as i (id, queue, type, state, attempt, dispatch, enqueued_at, started_at, on_terminal)
values (
  ($1::text)::uuid, $2::text, $3::text, 'running', ($4::text)::integer, 1,
  to_timestamp(($5::text)::double precision / 1000), clock_timestamp(), nullif($6::text, '')
)
on conflict (id, queue) do update
set state = 'running',
    attempt = excluded.attempt,
    token = i.token + 1
returning i.token::text as token
