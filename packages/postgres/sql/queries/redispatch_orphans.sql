-- Dispatches running jobs of dead workers again, for the case that their message is gone: a copy that
-- the broker still has is recognised by the inbox. Left alone are jobs that wait in a timer, those
-- dispatched again within the hour, and those whose envelope is nowhere in the database (foreign
-- messages), which only the broker has.
--
-- $1 milliseconds that the job has been running at least, $2 rows at most
--
-- Plan: reads the inbox, then outbox_id_idx a row. Caller: the relay's lease reaper.
with orphan as materialized (
  select i.id, i.queue, i.dispatch
  from waybill.inbox as i
  where i.state = 'running'
    and i.started_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and not waybill.worker_alive(i.owner)
    and not exists (select from waybill.timer as t where t.id = i.id and t.queue = i.queue)
    and not exists (
      select
      from waybill.outbox as o
      where o.id = i.id
        and o.kind = 'job'
        and o.queue = i.queue
        and o.dispatch > i.dispatch
        and o.created_at > clock_timestamp() - interval '1 hour'
    )
  limit $2::integer
)
insert into waybill.outbox (
  id, kind, dispatch, queue, type, version, payload, payload_base64, headers, priority, ordering_key,
  correlation_id, expires_at, enqueued_at
)
select
  n.id, 'job', n.dispatch + 1, n.queue, e.type, e.version, e.payload, e.payload_base64, e.headers,
  e.priority, e.ordering_key, e.correlation_id, e.expires_at, e.enqueued_at
from orphan as n
cross join lateral (
  (
    select
      o.type, o.version, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key,
      o.correlation_id, o.expires_at, o.enqueued_at
    from waybill.outbox as o
    where o.id = n.id
      and (o.kind = 'event' or (o.kind = 'job' and o.queue = n.queue))
    order by o.kind = 'job' desc, o.dispatch desc
    limit 1
  )
  union all
  (
    select
      d.type, d.version, d.payload, d.payload_base64, d.headers, d.priority, d.ordering_key,
      d.correlation_id, null, d.enqueued_at
    from waybill.dead_letter as d
    where d.id = n.id and d.queue = n.queue
  )
  limit 1
) as e
returning id::text as id, queue
