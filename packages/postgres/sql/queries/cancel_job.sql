-- Cancels a job: a queued or waiting one ends here, with its timer; a running one is asked to end. An
-- ended job is left alone, and no row comes back. The row of the inbox decides, as it is at the
-- moment of the write: a worker that claims the job at the same time wins or loses as a whole.
-- 1: id, 2: queue, 3: actor, 4: reason.
-- Plan: outbox_id_idx, inbox_pkey, timer_pkey. Caller: jobs.ts.
with input as materialized (
  select ($1::text)::uuid as id, $2::text as queue, $3::text as actor, $4::text as reason
),
target as (
  select
    j.id, j.queue, j.type, j.dispatch, j.enqueued_at,
    -- From a header that any caller of waybill.enqueue can set: what is no name is no event.
    case when j.on_terminal ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' then j.on_terminal end as on_terminal
  from waybill.job as j
  where j.id = (select n.id from input as n)
    and j.queue = (select n.queue from input as n)
  limit 1
),
cancelled as (
  insert into waybill.inbox as i (
    id, queue, type, state, dispatch, enqueued_at, finished_at, cancel_requested_at, on_terminal
  )
  select
    t.id, t.queue, t.type, 'cancelled', t.dispatch, t.enqueued_at, clock_timestamp(), clock_timestamp(),
    t.on_terminal
  from target as t
  on conflict (id, queue) do update
  set state = case when i.state = 'running' then i.state else 'cancelled' end,
      finished_at = case when i.state = 'running' then i.finished_at else clock_timestamp() end,
      cancel_requested_at = coalesce(i.cancel_requested_at, clock_timestamp())
  where i.state in ('queued', 'running', 'retry_waiting')
  returning i.id, i.queue, i.state
),
timers as (
  delete from waybill.timer as t
  using cancelled as c
  where c.state = 'cancelled' and t.id = c.id and t.queue = c.queue and t.kind = 'job'
),
-- A job that waits for its turn, or for the retry that its ordering key waits for.
waiting as (
  delete from waybill.backlog as b
  using cancelled as c
  where c.state = 'cancelled' and b.id = any (array[c.id]) and b.queue is not distinct from c.queue
  returning b.id
),
unslotted as (
  delete from waybill.slot as s
  using cancelled as c
  where c.state = 'cancelled' and s.id = c.id and s.queue = c.queue and s.waiting
  returning s.id
),
counted_out as (
  delete from waybill.waiting as w
  using cancelled as c
  where c.state = 'cancelled' and w.id = any (array[c.id]) and w.queue is not distinct from c.queue
),
news as (
  insert into waybill.freed (queue, ended, changed)
  select c.queue, array(select u.id from unslotted as u), array(select w.id from waiting as w)
  from cancelled as c
  where exists (select from unslotted) or exists (select from waiting)
),
noted as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select n.actor, 'cancel', c.id, c.queue, nullif(n.reason, '')
  from cancelled as c
  cross join input as n
)
select c.state
from cancelled as c
