-- Gives the term up, so that another relay can take it at once.
--
-- $1 epoch
--
-- Plan: relay_pkey. Caller: the relay's term.
update waybill.relay as r
set lease_until = null,
    holder = null
where r.shard = 0
  and r.epoch = $1::bigint
