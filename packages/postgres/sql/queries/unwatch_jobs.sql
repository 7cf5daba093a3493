-- Says that a process watches jobs no longer.
-- 1: the process, 2: JSON array of job ids.
-- Plan: watch_pkey. Caller: job-watches.ts.
delete from waybill.watch as w
where w.watcher = ($1::text)::uuid
  and w.id = any (array(select jsonb_array_elements_text(($2::text)::jsonb)::uuid))
returning w.id::text as id
