-- How much of the outbox is not published, counted up to 10,000 rows, and the age of the oldest in
-- milliseconds. Rows before the cursor's xmin are published for certain.
-- Plan: outbox_tx_seq_idx from the cursor on. Caller: waybill doctor.
with cursor as (
  select r.snapshot
  from waybill.relay as r
  where r.shard = 0
),
pending as (
  select o.created_at
  from cursor as c, waybill.outbox as o
  where o.tx >= coalesce(pg_snapshot_xmin(c.snapshot), '0'::xid8)
    and (c.snapshot is null or not pg_visible_in_snapshot(o.tx, c.snapshot))
  order by o.tx, o.seq
  limit 10000
)
select
  count(*)::text as pending,
  coalesce((extract(epoch from clock_timestamp() - min(p.created_at)) * 1000)::bigint, 0)::text as age
from pending as p
