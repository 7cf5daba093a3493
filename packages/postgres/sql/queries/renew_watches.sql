-- Renews everything that a process watches. An id that does not come back is not watched any more:
-- it was pruned while the database was away.
-- 1: the process.
-- Plan: watch_watcher_idx. Caller: job-watches.ts.
update waybill.watch as w
set lease_until = clock_timestamp() + interval '60 seconds'
where w.watcher = ($1::text)::uuid
returning w.id::text as id
