-- How far the books of the audited queues are: those that a worker of this database consumes or has
-- consumed within a day. Another database's inbox cannot be seen from here, so its queues are left alone.
-- One row back for each; without any, one row without a queue. None: another relay has the term.
--
-- $1 epoch
--
-- Plan: audit_pkey, relay_pkey, and the table of workers as a whole. Caller: the relay's auditor.
with term as materialized (
  select r.snapshot, r.marker
  from waybill.relay as r
  where r.shard = 0 and r.epoch = $1::bigint
),
consumed as materialized (
  select distinct unnest(w.queues) as queue
  from waybill.worker as w
),
opened as (
  insert into waybill.audit (queue)
  select c.queue
  from consumed as c, term as t
  where not exists (select from waybill.audit as a where a.queue = c.queue)
  on conflict (queue) do nothing
)
select
  t.snapshot::text as snapshot,
  t.marker,
  (extract(epoch from statement_timestamp()) * 1000)::double precision as "nowMs",
  a.queue,
  a.since::text as since,
  a.until::text as until,
  a.position_tx::text as tx,
  a.position_seq::text as seq,
  a.lost::text as lost,
  (extract(epoch from a.lost_at) * 1000)::double precision as "lostAtMs",
  a.lost_why as "lostWhy"
from term as t
left join waybill.audit as a on a.queue in (select c.queue from consumed as c)
