-- Queues that the database has heard of, with whether jobs were enqueued to them directly (false:
-- seen with workers or dead letters only, so it may be a subscription).
-- The newest 10,000 rows of the outbox stand for all of it: a scan of the whole would take minutes.
-- Plan: outbox_tx_seq_idx backward, limit. Caller: waybill topology, waybill doctor.
with recent as (
  select o.queue, o.kind, o.dispatch
  from waybill.outbox as o
  order by o.tx desc, o.seq desc
  limit 10000
),
seen as (
  select r.queue, r.kind = 'job' and r.dispatch = 1 as direct
  from recent as r
  where r.queue is not null
  union all
  select t.queue, t.reason = 'delay' and t.kind = 'job'
  from waybill.timer as t
  where t.queue <> ''
  union all
  select d.queue, false
  from waybill.dead_letter as d
  union all
  select unnest(w.queues), false
  from waybill.worker as w
)
select s.queue, bool_or(s.direct)::text as direct
from seen as s
group by s.queue
order by s.queue
