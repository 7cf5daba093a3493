-- What was enqueued or published, first dispatches only, oldest first: rows of the outbox and
-- delayed jobs. `done` is a JSON array of the queues whose inbox knows the id.
--
-- $1 job or event name, or the empty text for all
-- $2 transaction: only what the caller's own transaction wrote; all: everything it can see
--
-- A timer has no column for its transaction: a row that is visible while its transaction is in
-- progress is the caller's own, savepoints included.
--
-- Runs on the application's transaction. Plan: reads all; meant for the databases of tests.
-- Caller: enqueuedJobs and drainJobs of the testing package.
with enqueued as (
  select
    o.id, o.kind, coalesce(o.queue, '') as queue, o.type, o.version, o.payload, o.payload_base64, o.headers,
    o.priority, o.ordering_key, o.correlation_id, o.exchange, o.routing_key, o.expires_at, o.enqueued_at,
    null::timestamptz as run_at, o.seq,
    o.tx is not distinct from pg_current_xact_id_if_assigned() as own
  from waybill.outbox as o
  where o.kind in ('job', 'event', 'route') and o.dispatch = 1
  union all
  select
    t.id, t.kind, t.queue, t.type, t.version, t.payload, t.payload_base64, t.headers,
    t.priority, t.ordering_key, t.correlation_id, t.exchange, t.routing_key, t.expires_at, t.enqueued_at,
    t.fire_at, null::bigint,
    pg_current_xact_id_if_assigned() is not null
      and pg_xact_status((
        ((pg_current_xact_id_if_assigned()::text::bigint >> 32) << 32) | t.xmin::text::bigint
      )::text::xid8) = 'in progress'
  from waybill.timer as t
  where t.reason = 'delay' and t.dispatch = 1
),
asked as (
  select $1::text as type, $2::text as scope
)
select
  e.id::text as id,
  e.kind::text as kind,
  e.queue::text as queue,
  e.type::text as type,
  e.version::text as version,
  e.payload::text as payload,
  e.payload_base64::text as base64,
  nullif(e.headers - '{waybill-on-terminal,waybill-concurrency-key}'::text[], '{}'::jsonb)::text as headers,
  e.headers ->> 'waybill-concurrency-key' as concurrency,
  case when e.kind = 'job' then e.headers ->> 'waybill-on-terminal' end as terminal,
  e.priority::text as priority,
  e.ordering_key::text as ordering,
  e.correlation_id::text as correlation,
  e.exchange::text as exchange,
  e.routing_key::text as routing,
  ((extract(epoch from e.expires_at) * 1000)::bigint)::text as expires,
  ((extract(epoch from e.enqueued_at) * 1000)::bigint)::text as enqueued,
  ((extract(epoch from e.run_at) * 1000)::bigint)::text as due,
  coalesce((select json_agg(i.queue) from waybill.inbox as i where i.id = e.id), '[]')::text as done
from enqueued as e
cross join asked as a
where (a.type = '' or e.type = a.type)
  and (a.scope = 'all' or e.own)
order by e.enqueued_at, e.seq nulls last, e.id
