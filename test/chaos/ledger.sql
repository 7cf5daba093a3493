-- The ledger of a run. Nothing in it is unique but what has to clash, so that whatever is doubled can be counted.

-- Written in the transaction that enqueues: the job exists if and only if its row does.
create table business (
  job_id uuid not null,
  -- Queue or subscription; an event has a row for each.
  queue text not null,
  kind text not null,
  -- Transaction of the producer, or the job whose child it is.
  batch text not null,
  key text,
  key_seq integer
);
create index on business (job_id, queue);

-- Written in the transaction of the handler.
create table effect (
  job_id uuid not null,
  queue text not null,
  attempt integer not null,
  worker text not null
);
create index on effect (job_id, queue);

-- Numbers the jobs of ordering keys, under a lock that is held until the commit.
create table account (
  key text primary key,
  seq integer not null default 0
);

create table sealed (secret text unique);

-- Jobs that each producer enqueues in a second; 0: none.
create table pace (rate double precision not null);
insert into pace values (0);

-- Every end of a job, and whatever leaves an end.
create table ended (
  job_id uuid not null,
  queue text not null,
  before text,
  state text not null,
  at timestamptz not null default clock_timestamp()
);
create index on ended (job_id, queue);

create function note_end() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'INSERT' then
    insert into public.ended (job_id, queue, state) values (new.id, new.queue, new.state);
  else
    insert into public.ended (job_id, queue, before, state) values (new.id, new.queue, old.state, new.state);
  end if;
  return null;
end;
$$;

create trigger note_end after update of state on waybill.inbox
for each row
when (
  new.state is distinct from old.state
  and (new.state in ('succeeded', 'failed', 'cancelled') or old.state in ('succeeded', 'failed', 'cancelled'))
)
execute function public.note_end();

create trigger note_first_end after insert on waybill.inbox
for each row
when (new.state in ('succeeded', 'failed', 'cancelled'))
execute function public.note_end();
