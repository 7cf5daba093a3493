-- The outbox: what is to be published, append-only, written in the application's own transaction.
--
-- Column order matters: tx is evaluated before seq, so that a row's transaction has its xid before
-- the row has its place in the order (the relay's window reader rests on it).

create sequence waybill.outbox_seq as bigint;

create table waybill.outbox (
  tx xid8 not null default pg_current_xact_id(),
  seq bigint not null default nextval('waybill.outbox_seq'),
  id uuid not null,
  kind text not null default 'job',
  dispatch integer not null default 1,
  queue text,
  type text not null,
  version integer not null default 1,
  exchange text,
  routing_key text,
  payload text not null,
  payload_base64 boolean not null default false,
  headers jsonb,
  priority integer,
  ordering_key text,
  correlation_id text,
  expires_at timestamptz,
  enqueued_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  constraint outbox_kind_known check (kind in ('job', 'event', 'dead_letter', 'route')),
  constraint outbox_dispatch_positive check (dispatch >= 1),
  constraint outbox_queue_present check ((queue is not null) = (kind in ('job', 'dead_letter'))),
  constraint outbox_route_present check ((exchange is not null and routing_key is not null) = (kind = 'route')),
  constraint outbox_queue_name check (queue ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  constraint outbox_type_length check (length(type) between 1 and 255)
) partition by range (created_at);

-- Catches every row whose day has no partition yet: enqueue never depends on the partition keeper.
create table waybill.outbox_default partition of waybill.outbox default;
comment on table waybill.outbox_default is 'Rows of the outbox whose day has no partition yet.';

-- Read by the relay: read_window.sql.
create index outbox_tx_seq_idx on waybill.outbox (tx, seq);
-- Read by the view job, by redrives and by look-ups of one job.
create index outbox_id_idx on waybill.outbox (id);
-- Read by the relay while it pages a large window: rows that share an ordering key go in seq order.
create index outbox_ordering_idx on waybill.outbox (seq) where ordering_key is not null;

comment on table waybill.outbox is 'What is to be published: one immutable row a dispatch. Never updated; whole partitions are dropped after the retention.';
comment on column waybill.outbox.tx is 'Transaction that wrote the row; the relay reads by it.';
comment on column waybill.outbox.seq is 'Order among the rows of one window.';
comment on column waybill.outbox.id is 'Job id (UUIDv7 made by the producer); the AMQP messageId.';
comment on column waybill.outbox.kind is 'job: to the queue''s workers; event: to every subscription; dead_letter: to the queue''s dead-letter queue; route: to the named exchange, for consumers that are not Waybill''s.';
comment on column waybill.outbox.dispatch is '1 for the first, one more for each retry, redrive or repair of the same job.';
comment on column waybill.outbox.queue is 'Queue of a job or dead letter; null for events and routes.';
comment on column waybill.outbox.type is 'Job name, or event name.';
comment on column waybill.outbox.version is 'Version of the payload''s shape.';
comment on column waybill.outbox.exchange is 'Exchange of kind route; null where it follows from the kind.';
comment on column waybill.outbox.routing_key is 'Routing key of kind route; null where it follows from the kind.';
comment on column waybill.outbox.payload is 'Exact text of the body, or base64 of its bytes where it is not text.';
comment on column waybill.outbox.payload_base64 is 'True where payload is base64 of bytes that are no valid text.';
comment on column waybill.outbox.headers is 'Headers of the application: an object of strings.';
comment on column waybill.outbox.priority is 'Integer, higher first; null for the default.';
comment on column waybill.outbox.ordering_key is 'Rows of one key are published in commit order.';
comment on column waybill.outbox.correlation_id is 'Carried to the message; a handler reads it as job.correlationId.';
comment on column waybill.outbox.expires_at is 'A job not started by then ends as cancelled.';
comment on column waybill.outbox.enqueued_at is 'When the job was first written; kept by every later dispatch.';
comment on column waybill.outbox.created_at is 'When this row was written; decides its partition.';

-- Everything that waits for a time: delayed jobs, retries, parked messages. A timer fires by moving
-- its row into the outbox in one statement.
create table waybill.timer (
  id uuid not null,
  queue text not null default '',
  kind text not null default 'job',
  dispatch integer not null default 1,
  fire_at timestamptz not null,
  reason text not null,
  detail text,
  failures integer not null default 0,
  parked_at timestamptz,
  type text not null,
  version integer not null default 1,
  exchange text,
  routing_key text,
  payload text not null,
  payload_base64 boolean not null default false,
  headers jsonb,
  priority integer,
  ordering_key text,
  correlation_id text,
  expires_at timestamptz,
  enqueued_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  constraint timer_pkey primary key (id, queue, kind, dispatch),
  constraint timer_kind_known check (kind in ('job', 'event', 'dead_letter', 'route')),
  constraint timer_reason_known check (reason in ('delay', 'retry', 'held', 'no_handler', 'unroutable', 'nacked', 'refused'))
);

-- Read by fire_timers.sql.
create index timer_fire_at_idx on waybill.timer (fire_at);

comment on table waybill.timer is 'Delayed jobs, retries and parked messages, each with its whole envelope.';
comment on column waybill.timer.queue is 'Queue of the job; the empty string for events and routes.';
comment on column waybill.timer.fire_at is 'When the row moves to the outbox; infinity: when an operator says so.';
comment on column waybill.timer.reason is 'delay: asked for by the producer; retry: next attempt; held: a copy of a job that another worker runs; no_handler: no worker knew the type or version; unroutable, nacked, refused: what the broker said.';
comment on column waybill.timer.detail is 'What happened, in words.';
comment on column waybill.timer.failures is 'How often publishing failed.';
comment on column waybill.timer.parked_at is 'When the message was first parked as no_handler; kept while it goes round.';
comment on column waybill.timer.id is 'Job id; the AMQP messageId.';
comment on column waybill.timer.kind is 'job, event, dead_letter or route, as in outbox.';
comment on column waybill.timer.dispatch is 'Dispatch that the row becomes when it fires.';
comment on column waybill.timer.type is 'Job name, or event name.';
comment on column waybill.timer.version is 'Version of the payload''s shape.';
comment on column waybill.timer.payload is 'Exact text of the body, or base64 of its bytes where it is not text.';
comment on column waybill.timer.payload_base64 is 'True where payload is base64 of bytes that are no valid text.';
comment on column waybill.timer.headers is 'Headers of the application: an object of strings.';
comment on column waybill.timer.priority is 'Integer, higher first; null for the default.';
comment on column waybill.timer.ordering_key is 'Rows of one key are published in commit order.';
comment on column waybill.timer.correlation_id is 'Carried to the message; a handler reads it as job.correlationId.';
comment on column waybill.timer.exchange is 'Exchange of kind route.';
comment on column waybill.timer.routing_key is 'Routing key of kind route.';
comment on column waybill.timer.expires_at is 'A job not started by then ends as cancelled.';
comment on column waybill.timer.enqueued_at is 'When the job was first written.';
comment on column waybill.timer.created_at is 'When this row was written.';

-- Identities of logical work, chosen by producers.
create table waybill.idempotency_key (
  type text not null,
  key text not null,
  job_id uuid not null,
  mode text not null,
  expires_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint idempotency_key_pkey primary key (type, key),
  constraint idempotency_key_mode_known check (mode in ('for_a_time', 'until_end')),
  constraint idempotency_key_expiry_present check ((expires_at is not null) = (mode = 'for_a_time'))
);

-- Read by prune_idempotency_keys.sql.
create index idempotency_key_expires_at_idx on waybill.idempotency_key (expires_at);

comment on table waybill.idempotency_key is 'Which job a producer''s idempotency key stands for; scoped by job type.';
comment on column waybill.idempotency_key.mode is 'for_a_time: until expires_at; until_end: until the job has ended.';
comment on column waybill.idempotency_key.type is 'Job name that the key is scoped by.';
comment on column waybill.idempotency_key.key is 'The key, 1 to 255 bytes.';
comment on column waybill.idempotency_key.job_id is 'Job that was enqueued with it first.';
comment on column waybill.idempotency_key.expires_at is 'End of mode for_a_time; null with until_end.';
comment on column waybill.idempotency_key.created_at is 'When the key was taken.';

-- The relay's cursor and term, one row a shard.
create table waybill.relay (
  shard smallint not null default 0,
  epoch bigint not null default 0,
  holder uuid,
  holder_name text,
  lease_until timestamptz,
  snapshot pg_snapshot,
  window_snapshot pg_snapshot,
  position_keyed boolean not null default false,
  position_tx xid8,
  position_seq bigint,
  system_identifier text,
  outbox_oid oid,
  saved_at timestamptz,
  constraint relay_pkey primary key (shard)
) with (fillfactor = 10);

insert into waybill.relay (shard) values (0);

comment on table waybill.relay is 'Which relay holds the term, and how far the outbox is published.';
comment on column waybill.relay.epoch is 'Number of the term; every cursor write carries it, so a frozen relay''s writes change nothing.';
comment on column waybill.relay.lease_until is 'End of the term by the database''s clock, unless renewed.';
comment on column waybill.relay.snapshot is 'Everything visible in it is published; null: nothing yet.';
comment on column waybill.relay.window_snapshot is 'Upper end of a window that is being paged; null: none.';
comment on column waybill.relay.position_keyed is 'False while rows without an ordering key are paged by (tx, seq), true while those with one are paged by seq.';
comment on column waybill.relay.position_tx is 'Last published place of the open window.';
comment on column waybill.relay.position_seq is 'Last published place of the open window.';
comment on column waybill.relay.system_identifier is 'Database cluster that the snapshots belong to; null where it cannot be read.';
comment on column waybill.relay.outbox_oid is 'Object id of the outbox that the snapshots belong to; another one means a restored dump.';
comment on column waybill.relay.shard is 'Part of the outbox; there is one so far.';
comment on column waybill.relay.holder is 'Boot id of the relay that holds the term; null: nobody.';
comment on column waybill.relay.holder_name is 'Its name, for people.';
comment on column waybill.relay.saved_at is 'When the cursor was last saved.';
