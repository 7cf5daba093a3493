-- The heartbeat. No row back: the lease was over, so others may run what this worker ran.
--
-- $1 boot id, $2 jobs running, $3 lease in milliseconds
--
-- Plan: worker_pkey. Caller: the worker's presence.
update waybill.worker as w
set lease_until = clock_timestamp() + $3::double precision * interval '1 millisecond',
    heartbeat_at = clock_timestamp(),
    running = $2::integer
where w.id = $1::uuid
  and w.lease_until > clock_timestamp()
returning w.id::text as id
