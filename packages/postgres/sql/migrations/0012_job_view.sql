-- The view job again, with concurrency keys, what waits in the backlog, and jobs that were dropped.

drop view waybill.job;

create view waybill.job as
with base as (
  -- Jobs of the outbox.
  select
    o.id, o.queue, o.type, o.version, o.payload, o.payload_base64, o.headers, o.priority, o.ordering_key,
    o.correlation_id, o.expires_at, o.enqueued_at,
    coalesce((select pg_visible_in_snapshot(o.tx, r.snapshot) from waybill.relay as r where r.shard = 0), false) as relayed
  from waybill.outbox as o
  where o.kind = 'job'
    and o.dispatch = 1
    -- A copy that a worker had parked is written again as it was, later than its job: only the first
    -- row is the job. Rows that are as old as their job need no look for another one.
    and (
      o.created_at < o.enqueued_at + interval '1 second'
      or not exists (
        select
        from waybill.outbox as first
        where first.id = o.id
          and first.queue = o.queue
          and first.kind = 'job'
          and first.dispatch = 1
          and first.seq < o.seq
      )
    )
  union all
  -- Delayed jobs that were never in the outbox yet.
  select
    t.id, t.queue, t.type, t.version, t.payload, t.payload_base64, t.headers, t.priority, t.ordering_key,
    t.correlation_id, t.expires_at, t.enqueued_at, false
  from waybill.timer as t
  where t.kind = 'job' and t.dispatch = 1 and t.reason = 'delay'
  union all
  -- Foreign messages, deliveries of events, and jobs whose outbox partition is gone.
  select
    i.id, i.queue, i.type, coalesce(d.version, e.version, t.version, 1), coalesce(d.payload, e.payload, t.payload),
    coalesce(d.payload_base64, e.payload_base64, t.payload_base64, false), coalesce(d.headers, e.headers, t.headers),
    coalesce(d.priority, e.priority, t.priority), coalesce(d.ordering_key, e.ordering_key, t.ordering_key),
    coalesce(d.correlation_id, e.correlation_id, t.correlation_id), coalesce(e.expires_at, t.expires_at),
    i.enqueued_at, true
  from waybill.inbox as i
  left join waybill.dead_letter as d on d.id = i.id and d.queue = i.queue
  left join lateral (
    select o.* from waybill.outbox as o where o.id = i.id and o.kind in ('event', 'job') order by o.seq limit 1
  ) as e on true
  left join lateral (
    select t.* from waybill.timer as t where t.id = i.id and t.queue = i.queue and t.kind = 'job' limit 1
  ) as t on true
  where not exists (
      select from waybill.outbox as o
      where o.id = i.id and o.kind = 'job' and o.dispatch = 1 and o.queue = i.queue
    )
    and not exists (
      select from waybill.timer as t
      where t.id = i.id and t.queue = i.queue and t.kind = 'job' and t.dispatch = 1 and t.reason = 'delay'
    )
)
select
  b.id,
  b.queue,
  b.type,
  b.version,
  coalesce(i.state, 'queued') as state,
  b.relayed,
  b.payload,
  b.payload_base64,
  nullif(b.headers - '{waybill-on-terminal,waybill-concurrency-key}'::text[], '{}'::jsonb) as headers,
  coalesce(g.priority, b.priority, 0) as priority,
  b.ordering_key,
  b.correlation_id,
  coalesce(i.attempt, 0) as attempt,
  coalesce(i.crashes, 0) as crashes,
  coalesce(i.dispatch, 1) as dispatch,
  coalesce(i.deaths, 0) as deaths,
  i.owner,
  w.name as worker,
  b.enqueued_at,
  waiting.fire_at as next_at,
  coalesce(waiting.reason, g.reason) as waiting_for,
  coalesce(waiting.detail, g.detail) as waiting_detail,
  b.expires_at,
  i.started_at,
  i.finished_at,
  i.cancel_requested_at,
  f.failure_class,
  f.message as failure_message,
  f.failed_at,
  r.result,
  p.stage as progress_stage,
  p.done as progress_done,
  p.total as progress_total,
  case when p.total > 0 then floor(100.0 * p.done / p.total)::integer end as progress_percent,
  p.reported_at as progress_at,
  -- Nobody works on it: its owner's heartbeat has stopped, and no other worker has taken it over yet.
  coalesce(i.state, 'queued') = 'running' and coalesce(w.lease_until <= clock_timestamp(), true) as stale,
  case when i.state = 'cancelled' then coalesce(c.actor, 'waybill') else c.actor end as cancelled_by,
  case when i.state = 'cancelled' and c.actor is null then 'expired before it could start' else c.detail end as cancel_reason,
  coalesce(i.on_terminal, b.headers ->> 'waybill-on-terminal') as on_terminal,
  b.headers ->> 'waybill-concurrency-key' as concurrency_key
from base as b
left join waybill.inbox as i on i.id = b.id and i.queue = b.queue
left join waybill.worker as w on w.id = i.owner
left join waybill.result as r on r.id = b.id and r.queue = b.queue
left join lateral (
  select t.fire_at, t.reason, t.detail
  from waybill.timer as t
  -- Inside, so that the rows of other jobs are not looked for at all.
  where coalesce(i.state, 'queued') in ('queued', 'retry_waiting')
    and t.id = b.id and t.queue = b.queue and t.kind = 'job'
  order by t.dispatch desc
  limit 1
) as waiting on true
left join lateral (
  select w.priority, 'turn' as reason, 'waits in the backlog of its queue' as detail
  from waybill.backlog as w
  where coalesce(i.state, 'queued') in ('queued', 'retry_waiting')
    and w.id = b.id and w.queue = b.queue
) as g on true
left join lateral (
  select f.failure_class, f.message, f.failed_at
  from waybill.failure as f
  where f.id = b.id and f.queue = b.queue
  order by f.failure_id desc
  limit 1
) as f on true
left join waybill.progress as p on p.id = b.id and p.queue = b.queue
left join lateral (
  select a.actor, a.detail
  from waybill.audit_log as a
  where i.cancel_requested_at is not null
    and a.id = b.id and a.queue = b.queue and a.action in ('cancel', 'drop')
  order by a.audit_id desc
  limit 1
) as c on true;

comment on view waybill.job is 'The durable contract of every job: identity, payload, state, priority, owner, attempts, failure, result, times.';
comment on column waybill.job.id is 'Job id, or id of the event that was delivered.';
comment on column waybill.job.queue is 'Queue, or subscription of the event.';
comment on column waybill.job.type is 'Job name, or event name.';
comment on column waybill.job.version is 'Version of the payload''s shape.';
comment on column waybill.job.state is 'queued, running, retry_waiting, succeeded, failed or cancelled.';
comment on column waybill.job.relayed is 'True once the relay has published it for the first time.';
comment on column waybill.job.payload is 'Exact text of the payload, or base64; null where it is past its retention.';
comment on column waybill.job.payload_base64 is 'True where payload is base64.';
comment on column waybill.job.headers is 'Headers of the application.';
comment on column waybill.job.priority is 'Integer, higher first.';
comment on column waybill.job.ordering_key is 'Rows of one key are published in commit order.';
comment on column waybill.job.correlation_id is 'As the producer gave it.';
comment on column waybill.job.attempt is 'Number of the current or last attempt; 0 before the first.';
comment on column waybill.job.crashes is 'How often a worker died while running it.';
comment on column waybill.job.dispatch is 'Dispatch that it was last claimed with.';
comment on column waybill.job.deaths is 'How often it was dead-lettered.';
comment on column waybill.job.owner is 'Worker that runs it, or ran it last (worker.id).';
comment on column waybill.job.worker is 'Name of that worker.';
comment on column waybill.job.enqueued_at is 'When the job was first written.';
comment on column waybill.job.next_at is 'When it goes on; infinity: when an operator releases it.';
comment on column waybill.job.waiting_for is 'Why it waits; see timer.reason, or turn: for its turn in a governed queue.';
comment on column waybill.job.waiting_detail is 'The same in words.';
comment on column waybill.job.expires_at is 'A job not started by then ends as cancelled.';
comment on column waybill.job.started_at is 'When the current or last attempt began.';
comment on column waybill.job.finished_at is 'When it ended.';
comment on column waybill.job.cancel_requested_at is 'When somebody asked to cancel it.';
comment on column waybill.job.failure_class is 'Class of the last failed attempt.';
comment on column waybill.job.failure_message is 'Message of the last failed attempt.';
comment on column waybill.job.failed_at is 'When the last failed attempt failed.';
comment on column waybill.job.result is 'What its handler gave back, as JSON text.';
comment on column waybill.job.progress_stage is 'What it is doing, as its handler last reported.';
comment on column waybill.job.progress_done is 'Units that are done.';
comment on column waybill.job.progress_total is 'Units in all; null where that is not known.';
comment on column waybill.job.progress_percent is 'Part that is done; null where the total is not known.';
comment on column waybill.job.progress_at is 'When that was reported.';
comment on column waybill.job.stale is 'True where nobody works on it: its owner''s heartbeat has stopped, and no other worker has taken it over yet.';
comment on column waybill.job.cancelled_by is 'Who cancelled it, or asked to; waybill where it had expired.';
comment on column waybill.job.cancel_reason is 'Why, in that person''s words.';
comment on column waybill.job.on_terminal is 'Event that is published when it ends; null: none.';
comment on column waybill.job.concurrency_key is 'Whose job it is; governed queues limit and share by it.';
