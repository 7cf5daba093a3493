-- Tells those who watch jobs that something has changed: one notification on the channel
-- <schema>.job for each of the ids that somebody watches, sent at commit; its payload is the id.
-- 1: JSON array of job ids.
-- One row back for each id that is watched.
-- Plan: watch_pkey. Caller: jobs.ts, the worker's settlements.
select w.id::text as id, pg_notify(replace('waybill.job', '"', ''), w.id::text)::text as told
from (
  select distinct w.id
  from waybill.watch as w
  where w.id = any (array(select jsonb_array_elements_text(($1::text)::jsonb)::uuid))
    and w.lease_until > clock_timestamp()
) as w
