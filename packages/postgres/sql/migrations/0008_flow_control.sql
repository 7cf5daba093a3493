-- Flow control: what is known of queues, the waiting jobs of governed queues, the slots of dispatched
-- ones, shares of limits, and breakers of dependencies.

-- Raised with every change of anything that decides what may be dispatched, so that a relay or worker
-- with older settings notices. The id tells this schema from another one: a slot is freed where it is.
create table waybill.flow (
  one boolean not null default true,
  id uuid not null default gen_random_uuid(),
  revision bigint not null default 1,
  constraint flow_pkey primary key (one),
  constraint flow_one check (one)
) with (fillfactor = 10);

insert into waybill.flow (one) values (true);

comment on table waybill.flow is 'One row: the number of the present settings of queues, types, keys and dependencies.';
comment on column waybill.flow.one is 'Always true: there is one row.';
comment on column waybill.flow.id is 'Identity of this schema; messages of governed queues carry it, since their slots lie here.';
comment on column waybill.flow.revision is 'One more with every change; a relay with an older number dispatches nothing before it has read again.';

create function waybill.raise_flow_revision() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  update waybill.flow set revision = revision + 1;
  return null;
end
$$;

comment on function waybill.raise_flow_revision() is 'Makes relays and workers read the settings of queues again.';

-- Queues that something was ever said about.
create table waybill.queue (
  name text not null,
  declared jsonb not null default '{}',
  overrides jsonb not null default '{}',
  settings jsonb not null generated always as (jsonb_strip_nulls(declared || overrides)) stored,
  governed boolean not null generated always as (
    jsonb_strip_nulls(declared || overrides)
      ?| array['priority', 'rate', 'keys', 'types', 'order', 'dependsOn', 'maxWaiting']
  ) stored,
  paused_at timestamptz,
  paused_by text,
  pause_reason text,
  closed_until timestamptz,
  closed_reason text,
  changed_at timestamptz not null default clock_timestamp(),
  constraint queue_pkey primary key (name),
  constraint queue_name_shape check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  constraint queue_declared_object check (jsonb_typeof(declared) = 'object'),
  constraint queue_overrides_object check (jsonb_typeof(overrides) = 'object')
);

comment on table waybill.queue is 'Settings of queues: limits, order, pauses. A queue without a row is pass-through and unlimited.';
comment on column waybill.queue.name is 'Name of the queue or subscription.';
comment on column waybill.queue.declared is 'Settings as defineQueue gave them.';
comment on column waybill.queue.overrides is 'Settings that an operator has set; each replaces the declared one of its name, and null takes it away.';
comment on column waybill.queue.settings is 'What holds: the declared settings with the overrides.';
comment on column waybill.queue.governed is 'True where a setting needs the backlog; a limit of concurrency alone does not.';
comment on column waybill.queue.paused_at is 'When it was paused; null: it is not.';
comment on column waybill.queue.paused_by is 'Who paused it.';
comment on column waybill.queue.pause_reason is 'Why, in that person''s words.';
comment on column waybill.queue.closed_until is 'Nothing is dispatched before: a handler said so.';
comment on column waybill.queue.closed_reason is 'What that handler said.';
comment on column waybill.queue.changed_at is 'When the row was last changed.';

-- For each row: a statement that changes none fires a trigger for statements too.
create trigger queue_changed after insert or update or delete on waybill.queue
for each row execute function waybill.raise_flow_revision();

-- What is said of single job types and keys at run time.
create table waybill.queue_gate (
  queue text not null,
  kind text not null,
  name text not null,
  tier text,
  paused_at timestamptz,
  paused_by text,
  pause_reason text,
  closed_until timestamptz,
  closed_reason text,
  constraint queue_gate_pkey primary key (queue, kind, name),
  constraint queue_gate_kind_known check (kind in ('type', 'key'))
);

comment on table waybill.queue_gate is 'Pauses and closed taps of job types and keys, and the tiers of keys.';
comment on column waybill.queue_gate.queue is 'Name of the queue.';
comment on column waybill.queue_gate.kind is 'type: a job name; key: a concurrency key.';
comment on column waybill.queue_gate.name is 'The job name or the key.';
comment on column waybill.queue_gate.tier is 'Of a key: the tier of keys.tiers that it belongs to; null: none.';
comment on column waybill.queue_gate.paused_at is 'When it was paused; null: it is not.';
comment on column waybill.queue_gate.paused_by is 'Who paused it.';
comment on column waybill.queue_gate.pause_reason is 'Why, in that person''s words.';
comment on column waybill.queue_gate.closed_until is 'Nothing of it is dispatched before: a handler said so.';
comment on column waybill.queue_gate.closed_reason is 'What that handler said.';

create trigger queue_gate_changed after insert or update or delete on waybill.queue_gate
for each row execute function waybill.raise_flow_revision();

-- Jobs of governed queues that wait for their turn. The payload stays in the outbox.
create table waybill.backlog (
  id uuid not null,
  queue text not null,
  place bigint not null,
  key text not null default '',
  ordering_key text,
  type text not null,
  priority integer not null default 0,
  dispatch integer not null default 1,
  payload text,
  changed xid8,
  enqueued_at timestamptz not null,
  lane text not null generated always as (
    case
      when ordering_key is not null then '=' || ordering_key
      else priority::text || '/' || type || '/' || key
    end
  ) stored,
  constraint backlog_pkey primary key (id, queue)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Read by read_lanes.sql and read_lane.sql.
create index backlog_lane_idx on waybill.backlog (queue, lane, place);

comment on table waybill.backlog is 'Jobs of governed queues that the relay has read and not dispatched yet.';
comment on column waybill.backlog.id is 'Job id.';
comment on column waybill.backlog.queue is 'Queue of the job.';
comment on column waybill.backlog.place is 'Place in the order in which the relay read the outbox: the order of commits.';
comment on column waybill.backlog.key is 'Concurrency key; the empty text for none.';
comment on column waybill.backlog.ordering_key is 'Jobs of one key run one at a time, in the order of their places.';
comment on column waybill.backlog.type is 'Job name.';
comment on column waybill.backlog.priority is 'Integer, higher first.';
comment on column waybill.backlog.dispatch is 'Dispatch that it becomes.';
comment on column waybill.backlog.payload is 'Of a job that was edited while it waited: its payload, so that a dispatch at the same time sends it; else null.';
comment on column waybill.backlog.changed is 'Transaction that edited or replaced the job while it waited: a dispatch that does not see it all yet leaves the job for a later round.';
comment on column waybill.backlog.enqueued_at is 'When the job was first written.';
comment on column waybill.backlog.lane is 'Jobs of one lane go in the order of their places: those of an ordering key, or of one priority, type and key.';

-- Dispatched and unfinished jobs of governed queues.
create table waybill.slot (
  id uuid not null,
  queue text not null,
  place bigint not null,
  key text not null,
  ordering_key text,
  type text not null,
  priority integer not null,
  dispatch integer not null,
  waiting boolean not null default false,
  enqueued_at timestamptz not null,
  dispatched_at timestamptz not null default clock_timestamp(),
  constraint slot_pkey primary key (id, queue)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

comment on table waybill.slot is 'What counts towards the limits of governed queues: one row for each job between its dispatch and its end.';
comment on column waybill.slot.id is 'Job id.';
comment on column waybill.slot.queue is 'Queue of the job.';
comment on column waybill.slot.place is 'Its place in the backlog, kept for its retries.';
comment on column waybill.slot.key is 'Concurrency key; the empty text for none.';
comment on column waybill.slot.ordering_key is 'Key whose other jobs wait for this one.';
comment on column waybill.slot.type is 'Job name.';
comment on column waybill.slot.priority is 'Integer, higher first.';
comment on column waybill.slot.dispatch is 'Its last dispatch.';
comment on column waybill.slot.waiting is 'True of the head of an ordering key that waits for its retry: it blocks its key, and counts towards no limit.';
comment on column waybill.slot.enqueued_at is 'When the job was first written.';
comment on column waybill.slot.dispatched_at is 'When it was last dispatched.';

-- News for the relay: what workers and operators did to slots and backlog. Read with a lower bound.
create table waybill.freed (
  n bigint generated always as identity,
  queue text not null,
  ended uuid[] not null default '{}',
  waiting uuid[] not null default '{}',
  changed uuid[] not null default '{}',
  run_ms double precision not null default 0,
  constraint freed_pkey primary key (n)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

comment on table waybill.freed is 'News for the relay that dispatches: one row for each batch of slots that became free.';
comment on column waybill.freed.n is 'Order of the news.';
comment on column waybill.freed.queue is 'Queue that they are about.';
comment on column waybill.freed.ended is 'Jobs whose slot is gone.';
comment on column waybill.freed.waiting is 'Jobs that keep their slot while they wait for a retry.';
comment on column waybill.freed.changed is 'Jobs of the backlog that were changed, taken away or put back.';
comment on column waybill.freed.run_ms is 'How long the ended ones ran, in milliseconds, together.';

-- Jobs that wait, of queues with a maximum; written by waybill.enqueue.
create table waybill.waiting (
  queue text not null,
  key text not null default '',
  id uuid not null,
  constraint waiting_pkey primary key (queue, key, id)
);

-- Read when a job is dispatched or cancelled.
create index waiting_id_idx on waybill.waiting (id);

comment on table waybill.waiting is 'Jobs that count towards the maximum of waiting jobs of their queue, from enqueue to dispatch.';
comment on column waybill.waiting.queue is 'Queue of the job.';
comment on column waybill.waiting.key is 'Concurrency key; the empty text for none.';
comment on column waybill.waiting.id is 'Job id.';

-- What each worker can take of each queue, and its share of the queue's limit.
create table waybill.worker_queue (
  worker uuid not null,
  queue text not null,
  concurrency integer not null,
  granted integer,
  held integer not null,
  turn bigint not null default 0,
  constraint worker_queue_pkey primary key (worker, queue)
) with (fillfactor = 50);

comment on table waybill.worker_queue is 'Workers of each queue, with their shares of its limit. The sum over the living of the larger of granted and held never exceeds the limit.';
comment on column waybill.worker_queue.worker is 'The worker (worker.id).';
comment on column waybill.worker_queue.queue is 'Queue that it consumes.';
comment on column waybill.worker_queue.concurrency is 'Jobs of the queue that it runs at a time, at most.';
comment on column waybill.worker_queue.granted is 'Share that the relay gives it; null: there is no limit, or the relay has not seen the worker yet.';
comment on column waybill.worker_queue.held is 'What it may be using, until it says less; its whole concurrency where there is no limit.';
comment on column waybill.worker_queue.turn is 'One more with each change of held, so that a statement that comes late changes nothing.';

-- Dependencies of jobs, each with a circuit breaker for the whole fleet.
create table waybill.dependency (
  name text not null,
  settings jsonb not null default '{}',
  state text not null default 'closed',
  manual boolean not null default false,
  reason text,
  openings integer not null default 0,
  probe_at timestamptz,
  changed_at timestamptz not null default clock_timestamp(),
  changed_by text not null default 'waybill',
  constraint dependency_pkey primary key (name),
  constraint dependency_state_known check (state in ('closed', 'open', 'half_open'))
);

comment on table waybill.dependency is 'What jobs depend on, with the state of its circuit breaker.';
comment on column waybill.dependency.name is 'Its name in dependsOn.';
comment on column waybill.dependency.settings is 'When it opens and for how long, as defineDependency gave it.';
comment on column waybill.dependency.state is 'closed: jobs go; open: they wait; half_open: one at a time goes as a probe.';
comment on column waybill.dependency.manual is 'True where an operator opened it: only an operator closes it.';
comment on column waybill.dependency.reason is 'Why it is in this state.';
comment on column waybill.dependency.openings is 'How often it has opened since a probe succeeded; makes the pauses longer.';
comment on column waybill.dependency.probe_at is 'When the next probe may go; null where it is not open, or an operator opened it.';
comment on column waybill.dependency.changed_at is 'When the state last changed.';
comment on column waybill.dependency.changed_by is 'Who changed it: an operator''s name, or waybill.';

create trigger dependency_changed after insert or update or delete on waybill.dependency
for each row execute function waybill.raise_flow_revision();

create table waybill.dependency_outcome (
  dependency text not null,
  since timestamptz not null,
  second timestamptz not null,
  succeeded integer not null default 0,
  failed integer not null default 0,
  constraint dependency_outcome_pkey primary key (dependency, since, second)
) with (fillfactor = 50);

comment on table waybill.dependency_outcome is 'Outcomes of attempts that began after the last change of their dependency''s breaker, by the second in which they were told; kept as long as its window.';
comment on column waybill.dependency_outcome.dependency is 'Name of the dependency.';
comment on column waybill.dependency_outcome.since is 'dependency.changed_at as whoever wrote the row saw it: the rows of an earlier state are never counted.';
comment on column waybill.dependency_outcome.second is 'Second in which the attempts were told of.';
comment on column waybill.dependency_outcome.succeeded is 'Attempts that succeeded, or failed with a class that does not count.';
comment on column waybill.dependency_outcome.failed is 'Attempts that failed with a class that counts.';

create table waybill.dependency_event (
  event_id bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  dependency text not null,
  state text not null,
  reason text,
  actor text not null,
  constraint dependency_event_pkey primary key (event_id)
);

-- Read by list_dependency_events.sql.
create index dependency_event_dependency_idx on waybill.dependency_event (dependency, event_id);

comment on table waybill.dependency_event is 'History of the breakers.';
comment on column waybill.dependency_event.event_id is 'Order of the events.';
comment on column waybill.dependency_event.at is 'When.';
comment on column waybill.dependency_event.dependency is 'Name of the dependency.';
comment on column waybill.dependency_event.state is 'State that it went to.';
comment on column waybill.dependency_event.reason is 'Why.';
comment on column waybill.dependency_event.actor is 'Who: an operator''s name, or waybill.';

alter table waybill.timer
  drop constraint timer_reason_known,
  add constraint timer_reason_known check (reason in ('delay', 'retry', 'held', 'lease', 'no_handler', 'unroutable', 'nacked', 'refused', 'ungoverned'));
comment on column waybill.timer.reason is 'delay: asked for by the producer; retry: next attempt; held: a copy of a job that another worker runs; lease: a running job whose delivery was acked, dispatched again when its owner dies; no_handler: no worker knew the type or version; unroutable, nacked, refused: what the broker said; ungoverned: a message that came to a governed queue without a slot, on its way to the backlog.';

alter table waybill.audit_log
  drop constraint audit_log_action_known,
  add constraint audit_log_action_known check (action in (
    'cancel', 'retry', 'redrive', 'release', 'rescan', 'drain', 'restart',
    'set', 'pause', 'resume', 'edit', 'reprioritise', 'delay', 'drop', 'replace', 'open', 'close'
  ));
comment on table waybill.audit_log is 'Who did what: cancel, retry (from the CLI or API), redrive (a message moved back by hand), release (of a parked message), rescan (of the outbox), drain and restart (of a worker, named in the detail); set, pause and resume (of a queue, type or key); edit, reprioritise and delay (of a waiting job), drop (of the oldest of a full queue), replace (of a waiting job by a later enqueue); open and close (of a breaker).';
