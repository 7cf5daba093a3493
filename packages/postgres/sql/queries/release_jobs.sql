-- Hands running jobs back without spending an attempt: their next delivery, this one included, runs
-- them at once. Where the delivery was acked before, the lease becomes that delivery. A job that is
-- missing in the answer is not this attempt's any more.
--
-- $1 JSON array of {id, queue, token, dispatch, leased}; dispatch is that of the delivery handed back,
-- leased is true where it was acked before
--
-- Plan: inbox_pkey of one partition a row, timer_pkey of leased ones, outbox_id_idx of the others. Caller: the worker's shutdown and
-- its quarantine.
with given as (
  select g.id, g.queue, g.token, g.dispatch, g.leased
  from jsonb_to_recordset($1::jsonb) as g (id uuid, queue text, token bigint, dispatch integer, leased boolean)
),
released as (
  update waybill.inbox as i
  set state = 'retry_waiting',
      attempt = greatest(0, i.attempt - 1),
      dispatch = least(i.dispatch, g.dispatch) - 1,
      owner = null
  from given as g
  where i.id = g.id
    and i.queue = g.queue
    and i.token = g.token
    and i.state = 'running'
  returning i.id, i.queue, g.leased, g.dispatch
),
fired as (
  update waybill.timer as t
  set fire_at = clock_timestamp(),
      reason = 'held',
      detail = 'handed back by its worker',
      owner = null
  from released as r
  where r.leased
    and t.id = r.id
    and t.queue = r.queue
    and t.kind = 'job'
    and t.reason = 'lease'
),
-- The delivery alone brings the job forward from now on, and the auditor may have passed its row of the
-- outbox while it ran. So a copy follows, for the case that the broker loses the delivery.
copied as (
  insert into waybill.timer (
    id, queue, kind, dispatch, fire_at, reason, detail, type, version, payload, payload_base64, headers,
    priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    r.id, r.queue, 'job', r.dispatch, clock_timestamp() + interval '10 seconds', 'held',
    'handed back by its worker; a copy, should the broker lose it', o.type, o.version, o.payload,
    o.payload_base64, o.headers, o.priority, o.ordering_key, o.correlation_id, o.expires_at, o.enqueued_at
  from released as r
  cross join lateral (
    select e.*
    from waybill.outbox as e
    where e.id = r.id and ((e.kind = 'job' and e.queue = r.queue) or e.kind = 'event')
    order by e.kind = 'job' desc, e.dispatch desc
    limit 1
  ) as o
  where not r.leased
  on conflict (id, queue, kind, dispatch) do nothing
)
select r.id::text as id, r.queue
from released as r
