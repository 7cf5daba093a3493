-- The cursor, and what tells whether this server can honour it.
--
-- $1 epoch
--
-- Plan: relay_pkey. Caller: the relay at the start of a term.
select
  r.snapshot::text as snapshot,
  r.window_snapshot::text as "window",
  r.position_keyed as keyed,
  r.position_tx::text as tx,
  r.position_seq::text as seq,
  r.keyed_from::text as "keyedFrom",
  r.keyed_to::text as "keyedTo",
  r.system_identifier as "storedSystem",
  waybill.system_identifier() as system,
  r.outbox_oid::text as "storedOid",
  'waybill.outbox'::regclass::oid::text as oid,
  coalesce(pg_snapshot_xmax(r.snapshot) > pg_snapshot_xmax(pg_current_snapshot()), false)
    or coalesce(pg_snapshot_xmax(r.window_snapshot) > pg_snapshot_xmax(pg_current_snapshot()), false)
    as beyond
from waybill.relay as r
where r.shard = 0
  and r.epoch = $1::bigint
