-- The demo's own books, apart from the service's tables.

create schema demo;

-- What the service answered to each request that the demo sent.
create table demo.answered_delivery (
  delivery_id uuid not null,
  answer text not null check (answer in ('stored', 'duplicate', 'rolled back'))
);

-- What the endpoint accepted, one row for each request that it answered with 200.
create table demo.accepted_delivery (
  job_id uuid not null,
  delivery_id uuid not null,
  accepted_at timestamptz not null default now()
);
