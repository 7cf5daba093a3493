-- Puts a job off: one that waits for its time gets another one, one that waits for its turn becomes a
-- timer with its whole envelope. That gets the next number of dispatch: with the same one a job that was
-- never dispatched would look as if it had been enqueued with a delay and were in the outbox as well.
-- One row back where it waited so; a dispatch at the same time takes the row of the backlog or leaves it.
-- 1: id, 2: queue, 3: instant, or '', 4: else milliseconds from now, 5: actor, 6: reason, or ''.
-- Plan: timer_pkey, backlog_pkey, outbox_id_idx. Caller: waiting-acts.ts.
with input as materialized (
  select
    ($1::text)::uuid as id,
    $2::text as queue,
    coalesce(
      (nullif($3::text, ''))::timestamptz,
      clock_timestamp() + (nullif($4::text, ''))::numeric * interval '1 millisecond'
    ) as fire_at,
    $5::text as actor,
    nullif($6::text, '') as reason
),
timed as (
  update waybill.timer as t
  set fire_at = n.fire_at
  from input as n
  where t.id = n.id
    and t.queue = n.queue
    and t.kind = 'job'
    and t.reason in ('delay', 'retry')
  returning t.id, t.queue, t.fire_at
),
taken as (
  delete from waybill.backlog as b
  using input as n
  where b.id = n.id
    and b.queue = n.queue
    and exists (
      select from waybill.outbox as o where o.id = n.id and o.queue = n.queue and o.kind = 'job'
    )
  returning b.id, b.queue, b.dispatch, b.priority, b.payload, b.enqueued_at
),
moved as (
  insert into waybill.timer as t (
    id, queue, kind, dispatch, fire_at, reason, type, version, payload, payload_base64, headers,
    priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    k.id, k.queue, 'job', k.dispatch + 1, n.fire_at, 'delay', o.type, o.version,
    coalesce(k.payload, o.payload), o.payload_base64 and k.payload is null, o.headers,
    k.priority, o.ordering_key, o.correlation_id, o.expires_at, k.enqueued_at
  from taken as k
  cross join input as n
  cross join lateral (
    select e.*
    from waybill.outbox as e
    where e.id = k.id and e.queue = k.queue and e.kind = 'job'
    order by e.dispatch desc, e.tx desc, e.seq desc
    limit 1
  ) as o
  -- A copy that a worker has parked.
  on conflict (id, queue, kind, dispatch) do update
  set fire_at = excluded.fire_at,
      reason = excluded.reason,
      detail = null,
      parked_at = null,
      owner = null,
      payload = excluded.payload,
      payload_base64 = excluded.payload_base64,
      priority = excluded.priority
  returning t.id, t.queue, t.fire_at
),
news as (
  insert into waybill.freed (queue, changed)
  select k.queue, array[k.id]
  from taken as k
),
changed as (
  select t.id, t.queue, t.fire_at from timed as t
  union all
  select m.id, m.queue, m.fire_at from moved as m
),
noted as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select
    n.actor, 'delay', n.id, n.queue,
    concat(
      'until ', to_char(n.fire_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), ': ' || n.reason
    )
  from input as n
  where exists (select from changed)
)
select to_char(c.fire_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as fire_at
from changed as c
limit 1
