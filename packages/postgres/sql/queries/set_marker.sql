-- Remembers the marker that was declared at the broker.
--
-- $1 epoch, $2 name of the exchange
--
-- Plan: relay_pkey. Caller: the relay's auditor.
update waybill.relay as r
set marker = $2::text
where r.shard = 0
  and r.epoch = $1::bigint
returning r.epoch::text as epoch
