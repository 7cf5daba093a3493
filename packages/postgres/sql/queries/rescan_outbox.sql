-- Makes everything that has not ended new to the relay, because its position cannot be trusted (the
-- row was deleted, a dump was restored, the server is another one). Rows keep id and dispatch and get
-- this transaction's xid; ended ones get the oldest xid, which counts as published. One row back:
-- how many are published again; none: another relay has the term.
--
-- $1 epoch
-- $2 true where the stored snapshot belongs to these rows (a restored dump): then routes and dead
--    letters that were published are not published again; events are, subscribers tell copies apart
-- $3 why, for the audit log
--
-- Plan: reads the whole outbox. Caller: the relay at the start of a term.
with term as materialized (
  select r.snapshot
  from waybill.relay as r
  where r.shard = 0 and r.epoch = $1::bigint
  for update
),
restamped as (
  update waybill.outbox as o
  set tx = case
        when o.kind = 'job' and exists (
          select
          from waybill.inbox as i
          where i.id = o.id and i.queue = o.queue and i.state in ('succeeded', 'failed', 'cancelled')
        ) then '3'::xid8
        when o.kind in ('route', 'dead_letter')
          and $2::boolean
          and pg_visible_in_snapshot(o.tx, t.snapshot) then '3'::xid8
        else pg_current_xact_id()
      end
  from term as t
  returning o.tx
),
counted as (
  select count(*) filter (where s.tx <> '3'::xid8) as rows from restamped as s
),
-- Their places are of the old positions.
forgotten as (
  delete from waybill.audit as a
  using term as t
),
logged as (
  insert into waybill.audit_log (actor, action, detail)
  select 'relay', 'rescan', $3::text || ': ' || c.rows || ' rows are published again'
  from counted as c, term as t
)
update waybill.relay as r
set snapshot = '4:4:',
    window_snapshot = null,
    position_keyed = false,
    position_tx = null,
    position_seq = null,
    keyed_from = null,
    keyed_to = null,
    system_identifier = waybill.system_identifier(),
    outbox_oid = 'waybill.outbox'::regclass::oid,
    saved_at = clock_timestamp()
from counted as c, term as t
where r.shard = 0
returning c.rows::text as rows
