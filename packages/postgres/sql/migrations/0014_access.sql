-- Least rights: the functions that a role calls without any right on what lies behind them, and the erasure
-- of what ended jobs hold. roles.sql grants both. The audit log knows that act, and that of the auditor.

alter table waybill.audit_log
  drop constraint audit_log_action_known,
  add constraint audit_log_action_known check (action in (
    'cancel', 'retry', 'redrive', 'release', 'rescan', 'drain', 'restart',
    'set', 'pause', 'resume', 'edit', 'reprioritise', 'delay', 'drop', 'replace', 'open', 'close', 'reconcile', 'erase'
  ));
comment on table waybill.audit_log is 'Who did what: cancel, retry (from the CLI or API), redrive (a message moved back by hand), release (of a parked message), rescan (of the outbox), drain and restart (of a worker, named in the detail); set, pause and resume (of a queue, type or key); edit, reprioritise and delay (of a waiting job), drop (of the oldest of a full queue), replace (of a waiting job by a later enqueue); open and close (of a breaker), reconcile (of a queue with the broker); erase (of what an ended job holds).';

-- A producer needs nothing but this: it reads and changes no table itself.
alter function waybill.enqueue(jsonb, boolean) security definer;
revoke all on function waybill.enqueue(jsonb, boolean) from public;

-- DDL is for the owner of a table alone, and the relay is not the owner. So these four run with the owner's
-- rights, on tables of these names only.

-- As before, for names of the outbox's partitions only.
create or replace function waybill.create_outbox_partition(partition text, starts timestamptz, ends timestamptz, rows_max integer)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  found_rows integer;
begin
  if partition !~ '^outbox_[0-9]{8}(_[0-9]{4})?$' then
    raise exception using errcode = '22023', message = format('"%s" is no name of a partition of the outbox', partition);
  end if;
  if starts > clock_timestamp() then
    lock table waybill.outbox in share update exclusive mode;
  else
    -- Rows of this time are moved, and others are on their way. Whoever has looked up the partitions
    -- and then waits for the default one would read past what was moved away meanwhile, or insert
    -- there what is no longer its; so nobody may be between the two.
    lock table waybill.outbox in access exclusive mode;
  end if;
  lock table waybill.outbox_default in access exclusive mode;
  select count(*) into found_rows
  from (
    select from waybill.outbox_default as o
    where o.created_at >= starts and o.created_at < ends
    limit rows_max + 1
  ) as few;
  if found_rows > rows_max then
    return false;
  end if;
  -- Made beside the table and attached: "create table ... partition of" would lock all of it.
  execute format(
    'create table waybill.%I (like waybill.outbox including defaults including constraints including comments)', partition
  );
  execute format(
    'with moved as (delete from waybill.outbox_default as o where o.created_at >= %L and o.created_at < %L returning o.*)
     insert into waybill.%I select m.* from moved as m',
    starts, ends, partition
  );
  -- Proves the bounds, so that attaching need not read the rows again.
  execute format(
    'alter table waybill.%I add constraint %I check (created_at >= %L and created_at < %L)',
    partition, partition || '_bounds', starts, ends
  );
  execute format(
    'alter table waybill.outbox attach partition waybill.%I for values from (%L) to (%L)', partition, starts, ends
  );
  execute format('alter table waybill.%I drop constraint %I', partition, partition || '_bounds');
  return true;
end
$$;

-- As before, for partitions of the outbox only.
create or replace function waybill.drop_outbox_partition(partition text, checked pg_snapshot)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  late boolean;
begin
  if not exists (
    select from waybill.list_partitions('waybill.outbox') as p where p.name = partition and p.lower_bound is not null
  ) then
    raise exception using errcode = '42P01', message = format('"%s" is no partition of the outbox', partition);
  end if;
  -- Waits for whoever still writes into any partition, and keeps new ones out for a moment.
  lock table waybill.outbox in access exclusive mode;
  execute format(
    'select exists (
       select from waybill.%I as o
       where o.tx >= pg_snapshot_xmin($1) and not pg_visible_in_snapshot(o.tx, $1)
     )',
    partition
  ) into late using checked;
  if late then
    return false;
  end if;
  execute format('drop table waybill.%I', partition);
  return true;
end
$$;

-- As before, for names of the inbox's partitions only.
create or replace function waybill.create_inbox_partition(partition text, starts timestamptz, ends timestamptz, rows_max integer)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  first_id constant uuid := waybill.id_at(starts);
  end_id constant uuid := waybill.id_at(ends);
  found_rows integer;
begin
  if partition !~ '^inbox_[0-9]{8}(_[0-9]{4})?$' then
    raise exception using errcode = '22023', message = format('"%s" is no name of a partition of the inbox', partition);
  end if;
  if starts > clock_timestamp() then
    lock table waybill.inbox in share update exclusive mode;
  else
    -- Rows of this time are moved, and others are on their way. Whoever has looked up the partitions
    -- and then waits for the default one would read past what was moved away meanwhile, or insert
    -- there what is no longer its; so nobody may be between the two.
    lock table waybill.inbox in access exclusive mode;
  end if;
  lock table waybill.inbox_default in access exclusive mode;
  select count(*) into found_rows
  from (
    select from waybill.inbox_default as i
    where i.id >= first_id and i.id < end_id
    limit rows_max + 1
  ) as few;
  if found_rows > rows_max then
    return false;
  end if;
  execute format(
    'create table waybill.%I (like waybill.inbox including defaults including constraints including comments) with (fillfactor = 45)',
    partition
  );
  execute format(
    'with moved as (delete from waybill.inbox_default as i where i.id >= %L and i.id < %L returning i.*)
     insert into waybill.%I select m.* from moved as m',
    first_id, end_id, partition
  );
  execute format(
    'alter table waybill.%I add constraint %I check (id >= %L and id < %L)',
    partition, partition || '_bounds', first_id, end_id
  );
  execute format(
    'alter table waybill.inbox attach partition waybill.%I for values from (%L) to (%L)', partition, first_id, end_id
  );
  execute format('alter table waybill.%I drop constraint %I', partition, partition || '_bounds');
  return true;
end
$$;

-- As before, for partitions of the inbox only, and the row of a job with a dead letter stays: without it the dead
-- letter could not be retried, and one that an operator moves back would run as if it were new.
create or replace function waybill.drop_inbox_partition(partition text, before timestamptz, rows_max integer)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  kept integer;
begin
  if not exists (
    select from waybill.list_partitions('waybill.inbox') as p where p.name = partition and p.lower_bound is not null
  ) then
    raise exception using errcode = '42P01', message = format('"%s" is no partition of the inbox', partition);
  end if;
  -- Only writes to these old ids wait while the partition is read.
  execute format('lock table waybill.%I in share row exclusive mode', partition);
  execute format(
    'select count(*) from (
      select from waybill.%I as i where i.finished_at is null or i.finished_at >= $1 or (
        i.state = ''failed'' and exists (select from waybill.dead_letter as d where d.id = i.id and d.queue = i.queue)
      )
      limit $2
    ) as few',
    partition
  ) into kept using before, rows_max + 1;
  if kept > rows_max then
    return false;
  end if;
  lock table waybill.inbox in access exclusive mode;
  execute format('alter table waybill.inbox detach partition waybill.%I', partition);
  alter table waybill.inbox_default disable trigger inbox_ended_unseen;
  execute format(
    'insert into waybill.inbox select i.* from waybill.%I as i where i.finished_at is null or i.finished_at >= $1 or (
        i.state = ''failed'' and exists (select from waybill.dead_letter as d where d.id = i.id and d.queue = i.queue)
      )',
    partition
  ) using before;
  alter table waybill.inbox_default enable trigger inbox_ended_unseen;
  execute format('drop table waybill.%I', partition);
  return true;
end
$$;

revoke all on function waybill.create_outbox_partition(text, timestamptz, timestamptz, integer) from public;
revoke all on function waybill.drop_outbox_partition(text, pg_snapshot) from public;
revoke all on function waybill.create_inbox_partition(text, timestamptz, timestamptz, integer) from public;
revoke all on function waybill.drop_inbox_partition(text, timestamptz, integer) from public;

-- True while anything of the id may still be published or run. Of an event that is published and was
-- delivered nowhere yet, nothing waits here: the broker has its own copies. One that nobody hears is parked,
-- and does not count.
create function waybill.job_live(job_id uuid) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select
    exists (
      select from waybill.inbox as i where i.id = job_id and i.state not in ('succeeded', 'failed', 'cancelled')
    )
    or exists (
      select
      from waybill.outbox as o
      where o.id = job_id
        and o.kind = 'job'
        and not exists (select from waybill.inbox as i where i.id = job_id and i.queue = o.queue)
    )
    or exists (
      select
      from waybill.outbox as o
      where o.id = job_id
        and o.kind in ('event', 'route')
        and not coalesce(
          pg_visible_in_snapshot(o.tx, (select r.snapshot from waybill.relay as r where r.shard = 0)), false
        )
    )
    or exists (
      select
      from waybill.timer as t
      where t.id = job_id
        and (
          t.kind = 'route'
          or (t.kind = 'event' and t.reason <> 'unroutable')
          or (
            t.kind = 'job'
            and not exists (select from waybill.inbox as i where i.id = job_id and i.queue = t.queue)
          )
        )
    )
$$;

comment on function waybill.job_live(uuid) is 'True while anything of the job or event may still be published or run.';

-- Erases what an ended job holds, and the event that told its end: payloads, headers, results, checkpoints,
-- progress, texts of failures and reasons, correlation ids and ordering keys. What stays says that there was
-- a job: its id, type and queue, its state, times and counts.
--
-- 'erased'; 'live': the job, or a delivery of the event of its end, has not ended; 'unknown': no such job.
--
-- A job that is erased has deaths 0: neither its dead letter here nor the one at the broker can be redriven,
-- also by a retry that waits for this transaction.
create function waybill.erase_job(job_id uuid, actor text, reason text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  erased constant text := '"(erased)"';
  ids uuid[];
begin
  perform from waybill.inbox as i where i.id = job_id order by i.queue for update;
  if not found then
    return case when waybill.job_live(job_id) then 'live' else 'unknown' end;
  end if;
  -- The events of its ends: one for each time that it was dead-lettered, and the last one. Their ids are of
  -- the moment at which they were written.
  select array_agg(distinct e.id) into ids
  from (
    select i.on_terminal, i.finished_at as ended_at
    from waybill.inbox as i
    where i.id = job_id
    union all
    select i.on_terminal, f.failed_at
    from waybill.inbox as i
    join waybill.failure as f on f.id = i.id and f.queue = i.queue and f.terminal
    where i.id = job_id
  ) as n
  join waybill.outbox as e
    on e.id >= waybill.id_at(n.ended_at - interval '1 second')
    and e.id < waybill.id_at(n.ended_at + interval '10 seconds')
    and e.kind = 'event'
    and e.type = n.on_terminal
    and e.correlation_id = job_id::text;
  perform from waybill.inbox as i where i.id = any (ids) order by i.id, i.queue for update;
  ids := array_append(ids, job_id);
  if exists (select from unnest(ids) as n (id) where waybill.job_live(n.id)) then
    return 'live';
  end if;

  -- Timers first: one that fires in this moment is found in the outbox afterwards. What nobody heard is not
  -- told any more.
  delete from waybill.timer as t where t.id = any (ids) and t.kind = 'event' and t.reason = 'unroutable';
  update waybill.timer as t
  set payload = erased, payload_base64 = false, headers = null, correlation_id = null, ordering_key = null, detail = null
  where t.id = any (ids);
  update waybill.outbox as o
  set payload = erased, payload_base64 = false, headers = null, correlation_id = null, ordering_key = null
  where o.id = any (ids);
  delete from waybill.dead_letter as d where d.id = any (ids);
  delete from waybill.result as r where r.id = any (ids);
  delete from waybill.checkpoint as c where c.id = any (ids);
  delete from waybill.progress as p where p.id = any (ids);
  update waybill.failure as f set message = '(erased)', stack = null where f.id = any (ids);
  update waybill.audit_log as a set detail = null where a.id = any (ids) and a.detail is not null;
  update waybill.inbox as i set deaths = 0 where i.id = any (ids) and i.deaths <> 0;
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select actor, 'erase', i.id, i.queue, nullif(reason, '')
  from waybill.inbox as i
  where i.id = any (ids);
  return 'erased';
end
$$;

comment on function waybill.erase_job(uuid, text, text) is 'Erases the payload of an ended job and all that came of it: erased, live or unknown.';
revoke all on function waybill.erase_job(uuid, text, text) from public;
