-- Jobs that outlive a message: checkpoints, progress, the lease that protects a job whose delivery was
-- acked before its end, requests to workers, watchers, and the event that tells a job's end.

-- A job's place in its own work. Written in the transaction of the effects that it stands for.
create table waybill.checkpoint (
  id uuid not null,
  queue text not null,
  number bigint not null,
  attempt integer not null,
  checkpoint text not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint checkpoint_pkey primary key (id, queue, number)
);

-- Read by prune_checkpoints.sql.
create index checkpoint_created_at_idx on waybill.checkpoint (created_at);

comment on table waybill.checkpoint is 'Last committed places of jobs in their work: the newest is given to the next attempt, a few older ones are history.';
comment on column waybill.checkpoint.id is 'Job id.';
comment on column waybill.checkpoint.queue is 'Queue of the job.';
comment on column waybill.checkpoint.number is 'One more with every checkpoint of the job; the highest counts.';
comment on column waybill.checkpoint.attempt is 'Attempt that saved it.';
comment on column waybill.checkpoint.checkpoint is 'The checkpoint as JSON text.';
comment on column waybill.checkpoint.created_at is 'When it was saved.';

-- What a user may see of a running job.
create table waybill.progress (
  id uuid not null,
  queue text not null,
  attempt integer not null,
  stage text,
  done bigint,
  total bigint,
  reported_at timestamptz not null default clock_timestamp(),
  constraint progress_pkey primary key (id, queue),
  constraint progress_counts_known check (done >= 0 and total >= 0 and done <= total)
) with (fillfactor = 50);

comment on table waybill.progress is 'How far jobs are, as their handlers last reported; written apart from their effects.';
comment on column waybill.progress.id is 'Job id, or id of the event that was delivered.';
comment on column waybill.progress.queue is 'Queue or subscription.';
comment on column waybill.progress.attempt is 'Attempt that reported it.';
comment on column waybill.progress.stage is 'What it is doing, in a few words.';
comment on column waybill.progress.done is 'Units that are done.';
comment on column waybill.progress.total is 'Units in all; null where that is not known.';
comment on column waybill.progress.reported_at is 'When it was written.';

-- The lease of a job whose delivery was acked before its end: a timer that fires when its owner dies.
alter table waybill.timer
  add column owner uuid,
  drop constraint timer_reason_known,
  add constraint timer_reason_known check (reason in ('delay', 'retry', 'held', 'lease', 'no_handler', 'unroutable', 'nacked', 'refused'));
-- Read by fire_leases.sql.
create index timer_owner_idx on waybill.timer (owner) where owner is not null;

comment on column waybill.timer.owner is 'Of reasons lease and held: the worker that runs the job (worker.id); the row fires when it is dead.';
comment on column waybill.timer.reason is 'delay: asked for by the producer; retry: next attempt; held: a copy of a job that another worker runs; lease: a running job whose delivery was acked, dispatched again when its owner dies; no_handler: no worker knew the type or version; unroutable, nacked, refused: what the broker said.';

-- What workers say of themselves, and what operators ask of them.
alter table waybill.worker
  add column state text not null default 'running',
  add column heartbeat_ms integer,
  add column hold_ms bigint,
  add column finished_jobs bigint not null default 0,
  add column rss_bytes bigint,
  add column blocked_ms integer,
  add column blocked_by text,
  add column stop_requested text,
  add column stop_requested_at timestamptz,
  add column stop_requested_by text,
  add column swept_at timestamptz,
  add constraint worker_state_known check (state in ('running', 'draining')),
  add constraint worker_stop_requested_known check (stop_requested in ('drain', 'restart'));

comment on column waybill.worker.state is 'running, or draining: it takes no more jobs.';
comment on column waybill.worker.heartbeat_ms is 'Milliseconds between its heartbeats.';
comment on column waybill.worker.hold_ms is 'Milliseconds that it holds a delivery; longer jobs are acked and protected by their lease alone.';
comment on column waybill.worker.finished_jobs is 'Attempts that it has finished since it started.';
comment on column waybill.worker.rss_bytes is 'Memory of its process at its last heartbeat.';
comment on column waybill.worker.blocked_ms is 'How long its event loop did not turn, as of the last heartbeat; null: it turned.';
comment on column waybill.worker.blocked_by is 'The handler that blocks its event loop, where that is known.';
comment on column waybill.worker.stop_requested is 'drain: take no more jobs; restart: finish and exit.';
comment on column waybill.worker.stop_requested_at is 'When that was asked for.';
comment on column waybill.worker.stop_requested_by is 'Who asked for it.';
comment on column waybill.worker.swept_at is 'When the jobs of this dead worker were dispatched again.';

-- As before, but for a server that has started again: the locks went with it, and the workers are there.
create or replace function waybill.worker_alive(worker_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select
    from waybill.worker as w
    where w.id = worker_id
      and w.lease_until > clock_timestamp()
      and (
        w.lock_key is null
        or w.heartbeat_at < pg_postmaster_start_time()
        or exists (
          select
          from pg_catalog.pg_locks as l
          where l.locktype = 'advisory'
            and l.granted
            and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = current_database())
            and l.objsubid = 1
            and l.classid = ((w.lock_key >> 32) & 4294967295)::oid
            and l.objid = (w.lock_key & 4294967295)::oid
        )
      )
  )
$$;

comment on function waybill.worker_alive(uuid) is 'True while the worker''s lease runs and its advisory lock, where it has one, is held; a lock that went with a restart of the server is missed only after the next heartbeat.';

-- Processes that watch jobs, so that workers tell about those and no others.
create table waybill.watch (
  id uuid not null,
  watcher uuid not null,
  lease_until timestamptz not null,
  constraint watch_pkey primary key (id, watcher)
) with (fillfactor = 50);

-- Read by renew_watches.sql and prune_watches.sql.
create index watch_watcher_idx on waybill.watch (watcher);

comment on table waybill.watch is 'Jobs that somebody watches: changes of these are told on the channel <schema>.job.';
comment on column waybill.watch.id is 'Job id.';
comment on column waybill.watch.watcher is 'The process that watches it: a fresh id for each.';
comment on column waybill.watch.lease_until is 'End of the watch, unless renewed.';

-- Who asked a worker to drain.
alter table waybill.audit_log
  drop constraint audit_log_action_known,
  add constraint audit_log_action_known check (action in ('cancel', 'retry', 'redrive', 'release', 'rescan', 'drain', 'restart'));

comment on table waybill.audit_log is 'Who did what: cancel, retry (from the CLI or API), redrive (a message moved back by hand), release (of a parked message), rescan (of the outbox), drain and restart (of a worker, named in the detail).';

-- The event that tells a job's end, for jobs that ask for it. A trigger, so that no way to end a job
-- can forget it; jobs that do not ask pay one comparison.
alter table waybill.inbox add column on_terminal text;
comment on column waybill.inbox.on_terminal is 'Name of the event that is published when the job ends; null: none.';

create function waybill.publish_job_end() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  failed_class text;
  failed_message text;
  cancel_actor text;
  cancel_reason text;
begin
  if new.state = 'failed' then
    select f.failure_class, f.message into failed_class, failed_message
    from waybill.failure as f
    where f.id = new.id and f.queue = new.queue
    order by f.failure_id desc
    limit 1;
  elsif new.state = 'cancelled' then
    select a.actor, a.detail into cancel_actor, cancel_reason
    from waybill.audit_log as a
    where a.id = new.id and a.queue = new.queue and a.action = 'cancel'
    order by a.audit_id desc
    limit 1;
  end if;
  insert into waybill.outbox (id, kind, type, payload, correlation_id, enqueued_at)
  values (
    waybill.new_id(),
    'event',
    new.on_terminal,
    json_build_object(
      'jobId', new.id,
      'jobName', new.type,
      'queue', new.queue,
      'state', new.state,
      'attempt', new.attempt,
      'enqueuedAt', to_char(new.enqueued_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'finishedAt', to_char(new.finished_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'result', (
        select r.result::json
        from waybill.result as r
        where new.state = 'succeeded' and r.id = new.id and r.queue = new.queue
      ),
      'failureClass', failed_class,
      'failureMessage', failed_message,
      'cancelledBy', case when new.state = 'cancelled' then coalesce(cancel_actor, 'waybill') end,
      'cancelReason', case
        when new.state <> 'cancelled' then null
        when cancel_actor is null then 'expired before it could start'
        else cancel_reason
      end
    )::text,
    -- The job's id leads from the event back to the job.
    new.id::text,
    clock_timestamp()
  );
  return null;
end
$$;

comment on function waybill.publish_job_end() is 'Publishes the event that tells a job''s end, in the transaction that ends it.';

create trigger inbox_ended after update of state on waybill.inbox
for each row
when (
  new.on_terminal is not null
  and new.state in ('succeeded', 'failed', 'cancelled')
  and old.state is distinct from new.state
)
execute function waybill.publish_job_end();

-- A job that is cancelled, or has expired, before any worker has seen it.
create trigger inbox_ended_unseen after insert on waybill.inbox
for each row
when (new.on_terminal is not null and new.state in ('succeeded', 'failed', 'cancelled'))
execute function waybill.publish_job_end();

-- As before, without telling the ends again: what is moved has ended long ago.
create or replace function waybill.drop_inbox_partition(partition text, before timestamptz, rows_max integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  kept integer;
begin
  -- Only writes to these old ids wait while the partition is read.
  execute format('lock table waybill.%I in share row exclusive mode', partition);
  execute format(
    'select count(*) from (
       select from waybill.%I as i
       where i.finished_at is null or i.finished_at >= $1
       limit $2
     ) as few',
    partition
  ) into kept using before, rows_max + 1;
  if kept > rows_max then
    return false;
  end if;
  lock table waybill.inbox in access exclusive mode;
  execute format('alter table waybill.inbox detach partition waybill.%I', partition);
  alter table waybill.inbox_default disable trigger inbox_ended_unseen;
  execute format(
    'insert into waybill.inbox select i.* from waybill.%I as i where i.finished_at is null or i.finished_at >= $1',
    partition
  ) using before;
  alter table waybill.inbox_default enable trigger inbox_ended_unseen;
  execute format('drop table waybill.%I', partition);
  return true;
end
$$;
