-- Saves the cursor. No row back: another relay has the term, and nothing was moved.
--
-- $1 epoch, $2 snapshot, $3 upper snapshot of the open window or null, $4 to $6 position in it,
-- $7 and $8 lowest and highest keyed seq seen in it
--
-- Losing a save in a crash only repeats messages, so the commit does not wait for the disk.
-- Plan: relay_pkey. Caller: the relay's cursor saver.
with relaxed as materialized (
  select set_config('synchronous_commit', 'off', true) as value
)
update waybill.relay as r
set snapshot = $2::pg_snapshot,
    window_snapshot = $3::pg_snapshot,
    position_keyed = $4::boolean,
    position_tx = $5::xid8,
    position_seq = $6::bigint,
    keyed_from = $7::bigint,
    keyed_to = $8::bigint,
    saved_at = clock_timestamp()
from relaxed as x
where r.shard = 0
  and r.epoch = $1::bigint
  and x.value = 'off'
returning r.epoch::text as epoch
