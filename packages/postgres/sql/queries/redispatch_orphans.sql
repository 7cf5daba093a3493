-- Dispatches running jobs again whose worker's lease is over (it is frozen, cut off, or dead), or
-- whose worker has left no row: a copy that the broker still has is recognised by the inbox, and so is
-- a second one of another relay. Left alone are jobs that have a timer, those dispatched again within
-- the hour, and those whose envelope is nowhere in the database (foreign messages), which only the
-- broker has.
--
-- $1 milliseconds: only jobs enqueued since; null: all
-- $2 rows at most
--
-- A worker that has gone in good order has given its messages back, so that those of a missing row are
-- given a minute. Leases are compared with the time at which the statement began: it may take longer
-- than a lease.
-- Plan: reads the inbox, by inbox_pkey where there is a $1 (no index on the owner, so that updates stay
-- in their page); then outbox_id_idx a row. Caller: the relay's look at dead owners.
with abandoned as materialized (
  select i.id, i.queue, i.dispatch
  from waybill.inbox as i
  left join waybill.worker as w on w.id = i.owner
  where i.state = 'running'
    and i.id >= coalesce(
      waybill.id_at(statement_timestamp() - $1::double precision * interval '1 millisecond'),
      '00000000-0000-0000-0000-000000000000'
    )
    and case
      when w.id is null then i.started_at < statement_timestamp() - interval '1 minute'
      else w.lease_until <= statement_timestamp()
    end
)
insert into waybill.outbox (
  id, kind, dispatch, queue, type, version, payload, payload_base64, headers, priority, ordering_key,
  correlation_id, expires_at, enqueued_at
)
select
  a.id, 'job', a.dispatch + 1, a.queue, e.type, e.version, e.payload, e.payload_base64, e.headers,
  e.priority, e.ordering_key, e.correlation_id, e.expires_at, e.enqueued_at
from abandoned as a
cross join lateral (
  (
    select
      o.type, o.version, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key,
      o.correlation_id, o.expires_at, o.enqueued_at
    from waybill.outbox as o
    where o.id = a.id
      and (o.kind = 'event' or (o.kind = 'job' and o.queue = a.queue))
    order by o.kind = 'job' desc, o.dispatch desc
    limit 1
  )
  union all
  (
    select
      d.type, d.version, d.payload, d.payload_base64, d.headers, d.priority, d.ordering_key,
      d.correlation_id, null, d.enqueued_at
    from waybill.dead_letter as d
    where d.id = a.id and d.queue = a.queue
  )
  limit 1
) as e
-- Scalar, so that no plan reads these tables as a whole.
where (
    select t.id
    from waybill.timer as t
    where t.id = a.id and t.queue = a.queue and t.kind = 'job'
    limit 1
  ) is null
  and (
    select o.id
    from waybill.outbox as o
    where o.id = a.id
      and o.kind = 'job'
      and o.queue = a.queue
      and o.dispatch > a.dispatch
      and o.created_at > clock_timestamp() - interval '1 hour'
    limit 1
  ) is null
limit $2::integer
returning id::text as id, queue
