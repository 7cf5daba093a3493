-- The demo's books: one row for each attempt, written by the handlers, with times of the database's
-- clock, which is the same to all workers.

create table attempt (
  id bigint primary key generated always as identity,
  job_id uuid not null,
  type text not null,
  tenant text not null,
  attempt integer not null,
  worker_pid integer not null,
  -- Of a posting: its account, and which of the account's it is.
  account text,
  entry integer,
  -- When the relay let it go; see run/ledger-schema.sql.
  dispatched_at timestamptz,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  succeeded boolean
);
