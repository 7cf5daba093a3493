-- The service's own tables.

create table if not exists webhook_event (
  delivery_id uuid primary key,
  event text not null,
  action text,
  repository text not null,
  payload jsonb not null,
  received_at timestamptz not null default now()
);

-- One row for every time that webhook.index took effect. It has no unique key on purpose: an effect
-- that happened twice would show here as two rows.
create table if not exists index_entry (
  job_id uuid not null,
  delivery_id uuid not null,
  indexed_at timestamptz not null default now()
);

create table if not exists repository_counter (
  repository text not null,
  event text not null,
  events integer not null,
  primary key (repository, event)
);
