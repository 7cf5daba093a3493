-- Says that a process watches jobs, for a minute unless renewed: workers then tell of their changes.
-- 1: the process (a fresh id of its own), 2: JSON array of job ids.
-- Plan: watch_pkey. Caller: job-watches.ts.
insert into waybill.watch (id, watcher, lease_until)
select j.id::uuid, w.id::uuid, clock_timestamp() + interval '60 seconds'
from (select $1::text as id) as w
cross join (select distinct jsonb_array_elements_text(($2::text)::jsonb) as id) as j
on conflict (id, watcher) do update
set lease_until = excluded.lease_until
returning id::text as id
