-- Records failed attempts, each with all that follows from it in one statement: the next attempt's
-- timer, or the end with its dead letter. A job that is missing in the answer is not this attempt's
-- any more; one that somebody asked to cancel meanwhile ends as cancelled.
--
-- $1 JSON array of
--   id, queue, token
--   terminal        true: dead-letter; false: try again in delay_ms
--   unspent         true where no handler ran: the attempt is not counted
--   leased          true where the delivery was acked before: its lease becomes the retry, or goes
--   slotted         true of a job of a governed queue: it gives its slot back
--   blocks          true where it keeps its ordering key waiting until its retry has ended
--   closes          'key' or 'queue': nothing else of that goes either before close_ms have passed
--   close_ms
--   concurrency_key of the job, for closes
--   failure_class, message, stack, fingerprint
--   type, version, payload, payload_base64, headers, priority, ordering_key, correlation_id,
--   expires_at, enqueued_at        the envelope
--
-- Plan: inbox_pkey of one partition a row. Caller: the worker's settlements.
with failed as (
  select f.*
  from jsonb_to_recordset(($1::text)::jsonb) as f (
    id uuid, queue text, token bigint, terminal boolean, unspent boolean, leased boolean, delay_ms double precision,
    slotted boolean, blocks boolean, closes text, close_ms double precision, concurrency_key text,
    failure_class text, message text, stack text, fingerprint text,
    type text, version integer, payload text, payload_base64 boolean, headers jsonb,
    priority integer, ordering_key text, correlation_id text,
    expires_at timestamptz, enqueued_at timestamptz
  )
),
ended as (
  update waybill.inbox as i
  set state = case
        when i.cancel_requested_at is not null then 'cancelled'
        when f.terminal then 'failed'
        else 'retry_waiting'
      end,
      attempt = i.attempt - f.unspent::integer,
      deaths = i.deaths + (f.terminal and i.cancel_requested_at is null)::integer,
      finished_at = case
        when f.terminal or i.cancel_requested_at is not null then clock_timestamp()
      end
  from failed as f
  where i.id = f.id
    and i.queue = f.queue
    and i.token = f.token
    and i.state = 'running'
  returning
    i.state, i.attempt, i.dispatch, i.deaths, i.owner, clock_timestamp() as ended_at, f.*
),
recorded as (
  insert into waybill.failure (
    id, queue, type, attempt, token, failure_class, message, stack, fingerprint, worker, terminal, failed_at
  )
  select
    e.id, e.queue, e.type, e.attempt, e.token, e.failure_class, e.message, e.stack, e.fingerprint,
    e.owner, e.state = 'failed', e.ended_at
  from ended as e
),
waiting as (
  insert into waybill.timer as t (
    id, queue, kind, dispatch, fire_at, reason, detail, type, version, payload, payload_base64,
    headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    e.id, e.queue, 'job', e.dispatch + 1, e.ended_at + e.delay_ms * interval '1 millisecond', 'retry',
    e.failure_class || ': ' || left(e.message, 200), e.type, e.version, e.payload, e.payload_base64,
    e.headers, e.priority, e.ordering_key, e.correlation_id, e.expires_at,
    coalesce(e.enqueued_at, e.ended_at)
  from ended as e
  where e.state = 'retry_waiting'
  -- A copy of the next dispatch may wait there already, held back while this attempt ran, or the lease.
  on conflict (id, queue, kind, dispatch) do update
  set fire_at = excluded.fire_at,
      reason = excluded.reason,
      detail = excluded.detail,
      parked_at = null,
      owner = null
),
unleased as (
  delete from waybill.timer as t
  using ended as e
  where e.leased
    and e.state <> 'retry_waiting'
    and t.id = e.id
    and t.queue = e.queue
    and t.kind = 'job'
    and t.reason = 'lease'
),
waits as (
  update waybill.slot as s
  set waiting = true
  from ended as e
  where e.slotted
    and e.blocks
    and e.state = 'retry_waiting'
    and s.id = any (array[e.id])
    and s.queue = e.queue
    and s.ordering_key is not null
  returning s.id, s.queue
),
unslotted as (
  delete from waybill.slot as s
  using ended as e
  where e.slotted
    and s.id = any (array[e.id])
    and s.queue = e.queue
    and not (e.blocks and e.state = 'retry_waiting' and s.ordering_key is not null)
  returning s.id, s.queue
),
news as (
  insert into waybill.freed (queue, ended, waiting)
  select
    u.queue,
    coalesce(array_agg(u.id) filter (where not u.waits), '{}'),
    coalesce(array_agg(u.id) filter (where u.waits), '{}')
  from (
    select s.id, s.queue, false as waits from unslotted as s
    union all
    select s.id, s.queue, true from waits as s
  ) as u
  group by u.queue
),
closed_queue as (
  insert into waybill.queue as q (name, closed_until, closed_reason)
  select e.queue, max(e.ended_at + e.close_ms * interval '1 millisecond'), left(max(e.message), 200)
  from ended as e
  where e.closes = 'queue'
  group by e.queue
  on conflict (name) do update
  set closed_until = greatest(q.closed_until, excluded.closed_until),
      closed_reason = excluded.closed_reason
),
closed_key as (
  insert into waybill.queue_gate as g (queue, kind, name, closed_until, closed_reason)
  select
    e.queue, 'key', e.concurrency_key, max(e.ended_at + e.close_ms * interval '1 millisecond'), left(max(e.message), 200)
  from ended as e
  where e.closes = 'key' and e.concurrency_key is not null
  group by e.queue, e.concurrency_key
  order by e.queue, e.concurrency_key
  on conflict (queue, kind, name) do update
  set closed_until = greatest(g.closed_until, excluded.closed_until),
      closed_reason = excluded.closed_reason
),
buried as (
  insert into waybill.dead_letter as l (
    id, queue, type, version, attempts, failure_class, message, fingerprint, payload, payload_base64,
    headers, priority, ordering_key, correlation_id, enqueued_at, died_at
  )
  select
    e.id, e.queue, e.type, e.version, e.attempt, e.failure_class, e.message, e.fingerprint, e.payload,
    e.payload_base64, e.headers, e.priority, e.ordering_key, e.correlation_id,
    coalesce(e.enqueued_at, e.ended_at), e.ended_at
  from ended as e
  where e.state = 'failed'
  on conflict (id, queue) do update
  set type = excluded.type,
      version = excluded.version,
      attempts = excluded.attempts,
      failure_class = excluded.failure_class,
      message = excluded.message,
      fingerprint = excluded.fingerprint,
      payload = excluded.payload,
      payload_base64 = excluded.payload_base64,
      headers = excluded.headers,
      priority = excluded.priority,
      ordering_key = excluded.ordering_key,
      correlation_id = excluded.correlation_id,
      enqueued_at = excluded.enqueued_at,
      died_at = excluded.died_at
),
copied as (
  insert into waybill.outbox (
    id, kind, dispatch, queue, type, version, payload, payload_base64, headers, priority,
    ordering_key, correlation_id, enqueued_at
  )
  select
    e.id, 'dead_letter', e.dispatch, e.queue, e.type, e.version, e.payload, e.payload_base64,
    coalesce(e.headers, '{}') || jsonb_build_object(
      'waybill-error', left(e.message, 1000),
      'waybill-error-class', e.failure_class,
      'waybill-attempts', e.attempt::text,
      'waybill-failed-at', to_char(e.ended_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'waybill-queue', e.queue,
      'waybill-death', e.deaths::text
    ),
    e.priority, e.ordering_key, e.correlation_id, coalesce(e.enqueued_at, e.ended_at)
  from ended as e
  where e.state = 'failed'
)
select e.id::text as id, e.queue, e.state, e.attempt, e.deaths
from ended as e
