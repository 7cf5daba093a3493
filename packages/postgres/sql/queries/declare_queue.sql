-- Declares a queue's settings, where nobody has declared others since they were read: a row back if so.
-- Called only where they differ, since each call makes relays and workers read all settings again.
--
-- $1 queue, $2 settings as JSON, $3 settings that were read, {} where there were none
--
-- Plan: queue_pkey. Caller: a worker's start.
insert into waybill.queue as q (name, declared)
values ($1::text, $2::jsonb)
on conflict (name) do update
set declared = excluded.declared,
    changed_at = clock_timestamp()
where q.declared = $3::jsonb
returning q.name
