-- Slots whose job no worker has claimed with that dispatch yet: the relay before may have died between
-- the slot and its message. One row back for each, as it is to be published.
--
-- Plan: the whole table of slots, inbox_pkey and outbox_id_idx a row. Caller: the relay's governor, at the
-- start of a term.
select
  o.tx::text as tx, o.seq::text as seq, s.id::text as id, 'job' as kind, s.dispatch, s.queue, o.type, o.version,
  null::text as exchange, null::text as routing_key, o.payload, o.payload_base64, o.headers, o.priority,
  o.ordering_key, o.correlation_id, o.expires_at, o.enqueued_at, o.created_at, o.failures
from waybill.slot as s
cross join lateral (
  select e.*
  from waybill.outbox as e
  where e.id = s.id and e.queue = s.queue and e.kind = 'job'
  order by e.dispatch desc, e.tx desc, e.seq desc
  limit 1
) as o
where not s.waiting
  and not exists (
    select
    from waybill.inbox as i
    where i.id = s.id and i.queue = s.queue and i.dispatch >= s.dispatch
  )
