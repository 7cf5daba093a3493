-- The service's own tables.

create table sale (
  id bigint primary key,
  customer text not null,
  amount_cents bigint not null,
  sold_at timestamptz not null
);

-- An export, as the service shows it to the user who asked for it.
create table export (
  id uuid primary key,
  job_id uuid not null,
  asked_at timestamptz not null default now()
);

-- Its lines. No unique key, so that a line that was written twice would show.
create table export_line (
  export_id uuid not null,
  sale_id bigint not null,
  line text not null
);

-- Where each attempt began: what the example counts as resumed.
create table export_start (
  export_id uuid not null,
  worker_pid integer not null,
  from_rows bigint not null,
  started_at timestamptz not null default clock_timestamp()
);
