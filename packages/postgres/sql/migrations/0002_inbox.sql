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
comment on table waybill.inbox_default is 'Rows of the inbox whose ids lie outside all partitions.';

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
comment on column waybill.inbox.id is 'Job id, or id of the event that was delivered.';
comment on column waybill.inbox.type is 'Job name, or event name.';
comment on column waybill.inbox.enqueued_at is 'When the job was first written, as the message says.';
comment on column waybill.inbox.started_at is 'When the current or last attempt began.';
comment on column waybill.inbox.finished_at is 'When it ended; null while it has not.';

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
comment on column waybill.worker.name is 'Its name, for people.';
comment on column waybill.worker.host is 'Host that it runs on.';
comment on column waybill.worker.pid is 'Its process id.';
comment on column waybill.worker.version is 'Version of the package.';
comment on column waybill.worker.queues is 'Queues that it consumes.';
comment on column waybill.worker.running is 'Jobs that it ran at its last heartbeat.';
comment on column waybill.worker.started_at is 'When it started.';
comment on column waybill.worker.heartbeat_at is 'When it last renewed its lease.';

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
comment on column waybill.failure.failure_id is 'Order of the failures.';
comment on column waybill.failure.id is 'Job id.';
comment on column waybill.failure.queue is 'Queue or subscription.';
comment on column waybill.failure.type is 'Job name, or event name.';
comment on column waybill.failure.attempt is 'Attempt that failed.';
comment on column waybill.failure.token is 'Fencing token of that attempt.';
comment on column waybill.failure.failure_class is 'Class of the failure, which decides what follows.';
comment on column waybill.failure.message is 'What went wrong: cleaned of control characters and credentials, and cut.';
comment on column waybill.failure.stack is 'Where it went wrong; cut.';
comment on column waybill.failure.worker is 'Worker that ran the attempt (worker.id).';
comment on column waybill.failure.failed_at is 'When it failed.';

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
comment on column waybill.dead_letter.id is 'Job id, or id of the event that was delivered.';
comment on column waybill.dead_letter.queue is 'Queue or subscription that it failed in.';
comment on column waybill.dead_letter.type is 'Job name, or event name.';
comment on column waybill.dead_letter.version is 'Version of the payload''s shape.';
comment on column waybill.dead_letter.attempts is 'Attempts that were made.';
comment on column waybill.dead_letter.failure_class is 'Class of the last failure.';
comment on column waybill.dead_letter.message is 'Message of the last failure.';
comment on column waybill.dead_letter.fingerprint is 'Equal for failures of the same kind; groups them.';
comment on column waybill.dead_letter.payload is 'Exact text of the body, or base64 of its bytes where it is not text.';
comment on column waybill.dead_letter.payload_base64 is 'True where payload is base64 of bytes that are no valid text.';
comment on column waybill.dead_letter.headers is 'Headers of the application: an object of strings.';
comment on column waybill.dead_letter.priority is 'Integer, higher first; null for the default.';
comment on column waybill.dead_letter.ordering_key is 'Rows of one key are published in commit order.';
comment on column waybill.dead_letter.correlation_id is 'Carried to the message; a handler reads it as job.correlationId.';
comment on column waybill.dead_letter.enqueued_at is 'When the job was first written.';
comment on column waybill.dead_letter.died_at is 'When it was dead-lettered.';

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
comment on column waybill.result.id is 'Job id.';
comment on column waybill.result.queue is 'Queue or subscription.';
comment on column waybill.result.result is 'What its handler gave back, as JSON text.';
comment on column waybill.result.created_at is 'When it succeeded.';

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
comment on column waybill.audit_log.audit_id is 'Order of the acts.';
comment on column waybill.audit_log.at is 'When.';
comment on column waybill.audit_log.actor is 'Who: a user''s name, or the part of Waybill.';
comment on column waybill.audit_log.action is 'What was done.';
comment on column waybill.audit_log.id is 'Job id; null where the act was on no job.';
comment on column waybill.audit_log.queue is 'Queue or subscription; null where the act was on none.';
comment on column waybill.audit_log.detail is 'Why, in the actor''s words.';
