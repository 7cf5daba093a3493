-- Takes the term if nobody holds it: one row back with the new epoch; none: another relay holds it.
--
-- $1 this relay's boot id, $2 its name, $3 lease in milliseconds
--
-- A term must never be given twice, so the commit waits for the disk whatever the server's default.
-- Plan: relay_pkey. Caller: the relay's term.
with durable as materialized (
  select set_config('synchronous_commit', 'on', true) as value
  where current_setting('synchronous_commit') = 'off'
),
forced as materialized (
  select count(*) as n from durable
)
update waybill.relay as r
set epoch = r.epoch + 1,
    holder = $1::uuid,
    holder_name = $2::text,
    lease_until = clock_timestamp() + $3::double precision * interval '1 millisecond'
from forced as f
where r.shard = 0
  and (r.lease_until is null or r.lease_until <= clock_timestamp())
  and f.n >= 0
returning r.epoch::text as epoch
