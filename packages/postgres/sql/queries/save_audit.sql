-- Remembers how far queues are audited. Nothing without the term, and nothing of a queue that was taken
-- for lost meanwhile: it is read again.
--
-- $1 epoch
-- $2 JSON array of {queue, since, until, tx, seq, lost, cleared}; lost as it was read; cleared: all of it
--    was dispatched again
--
-- Plan: audit_pkey a row. Caller: the relay's auditor.
update waybill.audit as a
set since = p.since::pg_snapshot,
    until = p.until::pg_snapshot,
    position_tx = p.tx::xid8,
    position_seq = p.seq,
    lost = case when not p.cleared then a.lost end,
    lost_at = case when not p.cleared then a.lost_at end,
    lost_why = case when not p.cleared then a.lost_why end,
    moved_at = clock_timestamp()
from jsonb_to_recordset(($2::text)::jsonb) as p (
  queue text, since text, until text, tx text, seq bigint, lost text, cleared boolean
)
where a.queue = p.queue
  and a.lost::text is not distinct from p.lost
  and exists (select from waybill.relay as r where r.shard = 0 and r.epoch = $1::bigint)
returning a.queue
