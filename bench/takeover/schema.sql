-- What the jobs of the measurement wait for, and what they leave behind.

-- A worker's jobs of a round may go on.
create table word (
  round integer not null,
  worker_pid integer not null,
  primary key (worker_pid, round)
);

-- Effects. No unique key, so that one that happened twice would show.
create table effect (
  job_id uuid not null,
  worker_pid integer not null
);

-- Effects that were refused, because the job was no longer the worker's.
create table refusal (
  job_id uuid not null,
  worker_pid integer not null,
  reason text not null
);
