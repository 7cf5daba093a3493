-- Redrives a failed job from its dead letter: a fresh series of attempts, dispatched at once. Of two
-- calls at the same time the second waits for the first one's row and then finds nothing to do. What was
-- refused as unauthentic is no job: run again, it would bear the relay's signature.
-- 1: id, 2: queue, 3: actor, 4: reason.
-- Plan: inbox_pkey, dead_letter_pkey. Caller: jobs.ts.
with input as materialized (
  select ($1::text)::uuid as id, $2::text as queue, $3::text as actor, $4::text as reason
),
revived as (
  update waybill.inbox as i
  set state = 'retry_waiting',
      attempt = 0,
      crashes = 0,
      finished_at = null,
      cancel_requested_at = null
  from input as n
  where i.id = n.id
    and i.queue = n.queue
    and i.state = 'failed'
    -- None once it is erased, which may be in the moment that this waits for.
    and i.deaths > 0
    and exists (
      select
      from waybill.dead_letter as d
      where d.id = n.id and d.queue = n.queue and d.failure_class <> 'unauthentic'
    )
  returning i.id, i.queue, i.dispatch
),
taken as (
  delete from waybill.dead_letter as d
  using revived as r
  where d.id = r.id and d.queue = r.queue
  returning d.*, r.dispatch
),
sent as (
  insert into waybill.outbox (
    id, kind, dispatch, queue, type, version, payload, payload_base64,
    headers, priority, ordering_key, correlation_id, enqueued_at
  )
  select
    t.id, 'job', t.dispatch + 1, t.queue, t.type, t.version, t.payload, t.payload_base64,
    t.headers, t.priority, t.ordering_key, t.correlation_id, t.enqueued_at
  from taken as t
),
noted as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select n.actor, 'retry', t.id, t.queue, nullif(n.reason, '')
  from taken as t
  cross join input as n
)
select (t.dispatch + 1)::text as dispatch
from taken as t
