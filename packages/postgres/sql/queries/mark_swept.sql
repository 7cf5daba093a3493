-- Notes that the jobs of dead workers have been dispatched again.
--
-- $1 boot ids
--
-- Plan: worker_pkey. Caller: the relay's look at dead owners.
update waybill.worker as w
set swept_at = clock_timestamp()
where w.id = any ($1::uuid[])
  and w.lease_until <= statement_timestamp()
