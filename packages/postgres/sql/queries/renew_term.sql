-- Renews the term. No row back: another relay has taken it.
--
-- $1 epoch, $2 lease in milliseconds
--
-- Plan: relay_pkey. Caller: the relay's term.
update waybill.relay as r
set lease_until = clock_timestamp() + $2::double precision * interval '1 millisecond'
where r.shard = 0
  and r.epoch = $1::bigint
  and r.lease_until is not null
returning r.epoch::text as epoch
