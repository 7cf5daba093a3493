-- Writes how far jobs are; those that another attempt owns are left out. The last report of an attempt
-- may come after its end.
--
-- $1 JSON array of {id, queue, token, stage, done, total}; no (id, queue) twice
--
-- Plan: inbox_pkey of one partition a row, progress_pkey. Caller: the worker's progress.
insert into waybill.progress as p (id, queue, attempt, stage, done, total, reported_at)
select i.id, i.queue, i.attempt, r.stage, r.done, r.total, clock_timestamp()
from jsonb_to_recordset(($1::text)::jsonb) as r (
  id uuid, queue text, token bigint, stage text, done bigint, total bigint
)
join waybill.inbox as i on i.id = r.id and i.queue = r.queue
where i.token = r.token
order by i.id, i.queue
on conflict (id, queue) do update
set attempt = excluded.attempt,
    stage = excluded.stage,
    done = excluded.done,
    total = excluded.total,
    reported_at = excluded.reported_at
returning p.id::text as id, p.queue
