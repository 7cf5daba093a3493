-- The inbox: what happened to each job, one narrow row per (job, consumer group), where the
-- consumer group is the queue. Written at claim, updated in place (HOT): primary key only, since any
-- index on a changing column would end that.

create table waybill.inbox (
  id uuid not null,
  queue text not null,
  type text not null,
  state text not null,
  attempt integer not null default 0,
  crashes integer not null default 0,
  dispatch integer not null,
  deaths integer not null default 0,
  token bigint not null default 1,
  owner uuid,
  enqueued_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  cancel_requested_at timestamptz,
  constraint inbox_pkey primary key (id, queue),
  constraint inbox_state_known check (state in ('queued', 'running', 'retry_waiting', 'succeeded', 'failed', 'cancelled'))
) partition by range (id);

-- Ids outside the live range: foreign messages (any UUID), jobs delayed for weeks.
create table waybill.inbox_default partition of waybill.inbox default with (fillfactor = 45);

comment on table waybill.inbox is 'What happened to each job, once per consumer group: the memory that makes effects happen once.';
comment on column waybill.inbox.queue is 'Queue or subscription that consumed it.';
comment on column waybill.inbox.state is 'running, retry_waiting, succeeded, failed or cancelled; queued is a job without a row.';
comment on column waybill.inbox.attempt is 'Number of the current or last attempt; 0 after a redrive, until it runs.';
comment on column waybill.inbox.crashes is 'How often a worker died while running it; a budget apart from attempts.';
comment on column waybill.inbox.dispatch is 'Dispatch that it was last claimed with; a copy with a lower or equal number is stale.';
comment on column waybill.inbox.deaths is 'How often it was dead-lettered; the marker waybill-death of the dead letter''s message.';
comment on column waybill.inbox.token is 'Fencing token: one more with every claim; writes with an older one change nothing.';
comment on column waybill.inbox.owner is 'Worker that runs it, or ran it last (worker.id).';
comment on column waybill.inbox.cancel_requested_at is 'Somebody asked to cancel it while it ran.';

-- Presence of workers, by the database's clock.
create table waybill.worker (
  id uuid not null,
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  queues text[] not null,
  running integer not null default 0,
  lock_key bigint,
  lease_until timestamptz not null,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  constraint worker_pkey primary key (id)
) with (fillfactor = 50);

comment on table waybill.worker is 'Workers that are or were alive; a row whose lease is over is a dead worker''s.';
comment on column waybill.worker.id is 'Boot id: a fresh one for every start of a worker.';
comment on column waybill.worker.lock_key is 'Session advisory lock that dies with the worker''s connection; null behind a transaction pooler.';
comment on column waybill.worker.lease_until is 'End of its ownership by the database''s clock, unless renewed by the heartbeat.';

-- True while the worker's lease runs and its advisory lock, where it has one, is held.
create function waybill.worker_alive(worker_id uuid) returns boolean
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

comment on function waybill.worker_alive(uuid) is 'True while the worker''s lease runs and its advisory lock, where it has one, is held.';

-- Every failed attempt.
create table waybill.failure (
  failure_id bigint generated always as identity,
  id uuid not null,
  queue text not null,
  type text not null,
  attempt integer not null,
  token bigint not null,
  failure_class text not null,
  message text not null,
  stack text,
  fingerprint text not null,
  worker uuid,
  terminal boolean not null,
  failed_at timestamptz not null default clock_timestamp(),
  constraint failure_pkey primary key (failure_id)
);

-- Read by get_job.sql and the view job.
create index failure_job_idx on waybill.failure (id, queue);
-- Read by prune_failures.sql.
create index failure_failed_at_idx on waybill.failure (failed_at);

comment on table waybill.failure is 'Every failed attempt: class, cleaned message, stack, worker.';
comment on column waybill.failure.fingerprint is 'Equal for failures of the same kind; groups them.';
comment on column waybill.failure.terminal is 'True where the job was dead-lettered by it.';

-- Jobs that ended as failed, with their envelope, until they are redriven or pruned.
create table waybill.dead_letter (
  id uuid not null,
  queue text not null,
  type text not null,
  version integer not null default 1,
  attempts integer not null,
  failure_class text not null,
  message text not null,
  fingerprint text not null,
  payload text not null,
  payload_base64 boolean not null default false,
  headers jsonb,
  priority integer,
  ordering_key text,
  correlation_id text,
  enqueued_at timestamptz not null,
  died_at timestamptz not null default clock_timestamp(),
  constraint dead_letter_pkey primary key (id, queue)
);

-- Read by list_dead_letters.sql.
create index dead_letter_died_at_idx on waybill.dead_letter (died_at, id, queue);
create index dead_letter_group_idx on waybill.dead_letter (queue, fingerprint);

comment on table waybill.dead_letter is 'Jobs that ended as failed, each with its whole envelope, so that it can be redriven from here; the message itself lies in the queue''s dead-letter queue.';

-- What a succeeded job gave back.
create table waybill.result (
  id uuid not null,
  queue text not null,
  result text not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint result_pkey primary key (id, queue)
);

-- Read by prune_results.sql.
create index result_created_at_idx on waybill.result (created_at);

comment on table waybill.result is 'What succeeded jobs gave back, as JSON text.';

-- Acts of operators and of the system on jobs.
create table waybill.audit_log (
  audit_id bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  actor text not null,
  action text not null,
  id uuid,
  queue text,
  detail text,
  constraint audit_log_pkey primary key (audit_id),
  constraint audit_log_action_known check (action in ('cancel', 'retry', 'redrive', 'release', 'rescan'))
);

-- Read by get_job.sql.
create index audit_log_job_idx on waybill.audit_log (id);

comment on table waybill.audit_log is 'Who did what to which job: cancel, retry (from the CLI or API), redrive (a message moved back by hand), release (of a parked message), rescan (of the outbox).';
