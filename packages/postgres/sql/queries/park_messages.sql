-- Parks messages as timers: copies of jobs that another worker runs (held), messages whose type or
-- version this worker does not know (no_handler), and foreign messages that are to run later
-- (delay), and messages of jobs that the database does not know any more, until an operator releases them
-- (orphan). A message that is missing in the answer was parked for longer than its window.
--
-- $1 JSON array of
--   id, queue, dispatch
--   reason          held | no_handler | delay | ungoverned | orphan
--   detail
--   owner           held: worker that runs the job; the copy comes back after its lease, or as soon as
--                   the relay finds it dead
--   delay_ms        added to the lease, or to now
--   window_ms       no_handler: how long it may go round, or null
--   parked_at       no_handler: when it was first parked, or null for now
--   fire_at         delay: when it is to run
--   type, version, payload, payload_base64, headers, priority, ordering_key, correlation_id,
--   expires_at, enqueued_at        the envelope
--
-- Plan: timer_pkey, worker_pkey. Caller: the worker's settlements.
with message as (
  select distinct on (m.id, m.queue, m.dispatch)
    m.*,
    clock_timestamp() as instant
  from jsonb_to_recordset($1::jsonb) as m (
    id uuid, queue text, dispatch integer, reason text, detail text, owner uuid,
    delay_ms double precision, window_ms double precision, parked_at timestamptz, fire_at timestamptz,
    type text, version integer, payload text, payload_base64 boolean, headers jsonb,
    priority integer, ordering_key text, correlation_id text,
    expires_at timestamptz, enqueued_at timestamptz
  )
  order by m.id, m.queue, m.dispatch
),
parked as (
  insert into waybill.timer as t (
    id, queue, kind, dispatch, fire_at, reason, detail, parked_at, owner, type, version, payload,
    payload_base64, headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    m.id, m.queue, 'job', m.dispatch,
    case when m.reason = 'orphan' then 'infinity' else greatest(
      m.instant,
      coalesce(
        m.fire_at,
        (select w.lease_until from waybill.worker as w where w.id = m.owner),
        m.instant
      )
    ) end + m.delay_ms * interval '1 millisecond',
    m.reason, m.detail,
    case when m.reason = 'no_handler' then coalesce(m.parked_at, m.instant) end,
    case when m.reason = 'held' then m.owner end,
    m.type, m.version, m.payload, m.payload_base64,
    case
      when m.reason = 'no_handler' then
        coalesce(m.headers, '{}') || jsonb_build_object(
          'waybill-parked-at',
          to_char(coalesce(m.parked_at, m.instant) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        )
      else m.headers
    end,
    m.priority, m.ordering_key, m.correlation_id, m.expires_at, coalesce(m.enqueued_at, m.instant)
  from message as m
  where m.window_ms is null
    or m.parked_at is null
    or m.parked_at + m.window_ms * interval '1 millisecond' > m.instant
  -- A retry that waits for its time is not hurried by a copy of it.
  on conflict (id, queue, kind, dispatch) do update
  set fire_at = case when t.reason in ('held', 'no_handler') then excluded.fire_at else t.fire_at end,
      parked_at = coalesce(t.parked_at, excluded.parked_at),
      owner = case when t.reason in ('held', 'no_handler') then excluded.owner else t.owner end
  returning t.id, t.queue, t.dispatch
)
select p.id::text as id, p.queue, p.dispatch
from parked as p
