-- Remembers to which server and table the cursor belongs.
--
-- $1 epoch
--
-- Plan: relay_pkey. Caller: the relay at the start of a term.
update waybill.relay as r
set system_identifier = waybill.system_identifier(),
    outbox_oid = 'waybill.outbox'::regclass::oid
where r.shard = 0
  and r.epoch = $1::bigint
  and (
    r.outbox_oid is distinct from 'waybill.outbox'::regclass::oid
    or r.system_identifier is distinct from coalesce(waybill.system_identifier(), r.system_identifier)
  )
