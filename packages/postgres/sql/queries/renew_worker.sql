-- The heartbeat. No row back: the lease was over, so others may run what this worker ran.
--
-- $1 boot id, $2 lease in milliseconds: 0 ends it, $3 jobs running, $4 state, $5 attempts finished,
-- $6 memory of its process in bytes, $7 milliseconds that its event loop has been blocked or null,
-- $8 the handler that blocks it or null
--
-- Plan: worker_pkey. Caller: the heartbeat thread of the worker's presence.
update waybill.worker as w
set lease_until = clock_timestamp() + $2::double precision * interval '1 millisecond',
    heartbeat_at = clock_timestamp(),
    running = $3::integer,
    state = $4::text,
    finished_jobs = $5::bigint,
    rss_bytes = $6::bigint,
    blocked_ms = $7::integer,
    blocked_by = $8::text
where w.id = $1::uuid
  and w.lease_until > clock_timestamp()
returning w.id::text as id
