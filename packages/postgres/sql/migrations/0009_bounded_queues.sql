-- Queues with a maximum of waiting jobs. waybill.enqueue calls admit_jobs before it writes jobs and
-- make_room after it; the rows of waiting go when their jobs are dispatched, cancelled or dropped.

-- Ids come from the producers' clocks, and may be any: the order of waiting is a number of its own.
alter table waybill.waiting
  add column n bigint generated always as identity,
  drop constraint waiting_pkey,
  add constraint waiting_pkey primary key (queue, key, n),
  set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- Read by waybill.admit_jobs and waybill.drop_oldest.
create index waiting_queue_n_idx on waybill.waiting (queue, n);
comment on column waybill.waiting.n is 'Order in which they were enqueued.';

-- Cancels the jobs of a full queue, or of one of its keys, that have waited longest.
--
-- Nobody is waited for: a job that another transaction holds is being dispatched, replaced or cancelled,
-- and the next one goes instead of it. Rows are locked in the order in which the relay locks them.
create function waybill.drop_oldest(queue_name text, only_key text, jobs_max bigint) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  excess bigint;
  oldest record;
  dropped uuid[] := '{}';
begin
  select count(*) - jobs_max into excess
  from waybill.waiting as w
  where w.queue = queue_name and (only_key is null or w.key = only_key);

  for oldest in
    select w.id, w.key, w.n
    from waybill.waiting as w
    where excess > 0 and w.queue = queue_name and (only_key is null or w.key = only_key)
    order by w.n
  loop
    exit when excess <= 0;
    perform from waybill.backlog as b where b.id = oldest.id and b.queue = queue_name for update skip locked;
    continue when not found
      and exists (select from waybill.backlog as b where b.id = oldest.id and b.queue = queue_name);
    perform from waybill.timer as t
    where t.id = oldest.id and t.queue = queue_name and t.kind = 'job' for update skip locked;
    continue when not found
      and exists (select from waybill.timer as t where t.id = oldest.id and t.queue = queue_name and t.kind = 'job');
    perform from waybill.waiting as w
    where w.queue = queue_name and w.key = oldest.key and w.n = oldest.n for update skip locked;
    continue when not found;

    -- One statement, so that the trigger that tells a job's end sees why it has ended. What has started
    -- in the meantime is left alone, and does not wait.
    with job as (
      (
        select t.type, t.dispatch, t.headers, t.enqueued_at
        from waybill.timer as t
        where t.id = oldest.id and t.queue = queue_name and t.kind = 'job'
      )
      union all
      (
        select o.type, o.dispatch, o.headers, o.enqueued_at
        from waybill.outbox as o
        where o.id = oldest.id and o.queue = queue_name and o.kind = 'job'
      )
      limit 1
    ),
    cancelled as (
      insert into waybill.inbox as i (
        id, queue, type, state, dispatch, enqueued_at, finished_at, cancel_requested_at, on_terminal
      )
      select
        oldest.id, queue_name, j.type, 'cancelled', j.dispatch, j.enqueued_at, clock_timestamp(), clock_timestamp(),
        -- From a header that any caller can set: what is no name is no event.
        substring(j.headers ->> 'waybill-on-terminal' from '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$')
      from job as j
      on conflict (id, queue) do update
      set state = 'cancelled',
          finished_at = excluded.finished_at,
          cancel_requested_at = excluded.cancel_requested_at
      where i.state = 'queued'
      returning i.id
    ),
    timers as (
      delete from waybill.timer as t
      using cancelled as c
      where t.id = c.id and t.queue = queue_name and t.kind = 'job'
    ),
    turns as (
      delete from waybill.backlog as b
      using cancelled as c
      where b.id = c.id and b.queue = queue_name
    ),
    counted_out as (
      delete from waybill.waiting as w
      where w.queue = queue_name and w.key = oldest.key and w.n = oldest.n
    ),
    noted as (
      insert into waybill.audit_log (actor, action, id, queue, detail)
      select
        'waybill', 'drop', c.id, queue_name,
        format('the queue was full: at most %s jobs%s may wait', jobs_max, ' of key "' || only_key || '"')
      from cancelled as c
    )
    select dropped || array(select c.id from cancelled as c) into dropped;
    excess := excess - 1;
  end loop;

  if dropped <> '{}' then
    insert into waybill.freed (queue, changed) values (queue_name, dropped);
  end if;
end
$$;

comment on function waybill.drop_oldest(text, text, bigint) is 'Cancels the jobs of a full queue, or of one of its keys, that have waited longest and have not started.';

-- Counts new jobs where their queue has a maximum; refuses them where it is full and says so.
create function waybill.admit_jobs(jobs jsonb, ids uuid[], skipped boolean[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  bounded record;
  crowded record;
begin
  -- In one order for all callers, so that two bulk enqueues cannot deadlock.
  for bounded in
    select
      q.name,
      (q.settings -> 'maxWaiting' ->> 'jobs')::bigint as jobs_max,
      (q.settings -> 'maxWaiting' ->> 'perKey')::bigint as key_max,
      coalesce(q.settings -> 'maxWaiting' ->> 'whenFull', 'refuse') = 'refuse' as refuses
    from waybill.queue as q
    where q.settings -> 'maxWaiting' is not null
      and q.name in (
        select e.job ->> 'queue' from jsonb_array_elements(jobs) with ordinality as e (job, n) where not skipped[e.n]
      )
    order by q.name
  loop
    perform pg_advisory_xact_lock(hashtextextended('waybill.waiting ' || bounded.name, 0));
    insert into waybill.waiting (queue, key, id)
    select
      bounded.name,
      coalesce(e.job ->> 'concurrency_key', e.job -> 'headers' ->> 'waybill-concurrency-key', ''),
      ids[e.n]
    from jsonb_array_elements(jobs) with ordinality as e (job, n)
    where e.job ->> 'queue' = bounded.name and not skipped[e.n]
    order by e.n;
    continue when not bounded.refuses;

    select c.key, c.jobs_max into crowded
    from (
      select w.key, bounded.key_max as jobs_max
      from waybill.waiting as w
      where bounded.key_max is not null
        and w.queue = bounded.name
        and w.key <> ''
        and w.key in (select own.key from waybill.waiting as own where own.id = any (ids))
      group by w.key
      having count(*) > bounded.key_max
      union all
      select null, bounded.jobs_max
      from waybill.waiting as w
      where bounded.jobs_max is not null and w.queue = bounded.name
      having count(*) > bounded.jobs_max
    ) as c
    order by c.key
    limit 1;
    if found then
      raise exception using
        errcode = 'WB001',
        message = 'waybill.enqueue: the queue is full: '
          || jsonb_build_object('key', crowded.key, 'max', crowded.jobs_max, 'queue', bounded.name)::text,
        hint = 'Roll back, or go back to a savepoint, and enqueue again later; or raise maxWaiting of the queue.';
    end if;
  end loop;
end
$$;

comment on function waybill.admit_jobs(jsonb, uuid[], boolean[]) is 'Counts new jobs of queues with a maximum of waiting jobs; raises WB001 where one is full and refuses.';

-- Makes room in full queues that drop their oldest jobs. Runs once the new jobs are written: of one
-- enqueue with more jobs than the queue may hold, the first ones go too.
create function waybill.make_room(ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  bounded record;
  crowded text;
begin
  for bounded in
    select
      q.name,
      (q.settings -> 'maxWaiting' ->> 'jobs')::bigint as jobs_max,
      (q.settings -> 'maxWaiting' ->> 'perKey')::bigint as key_max
    from waybill.queue as q
    where q.settings -> 'maxWaiting' ->> 'whenFull' = 'drop_oldest'
      and q.name in (select w.queue from waybill.waiting as w where w.id = any (ids))
    order by q.name
  loop
    for crowded in
      select distinct w.key
      from waybill.waiting as w
      where bounded.key_max is not null and w.id = any (ids) and w.queue = bounded.name and w.key <> ''
      order by w.key
    loop
      perform waybill.drop_oldest(bounded.name, crowded, bounded.key_max);
    end loop;
    if bounded.jobs_max is not null then
      perform waybill.drop_oldest(bounded.name, null, bounded.jobs_max);
    end if;
  end loop;
end
$$;

comment on function waybill.make_room(uuid[]) is 'Cancels the oldest waiting jobs of full queues that drop them.';

-- As before, and jobs that were dropped say so.
create or replace function waybill.publish_job_end() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  failed_class text;
  failed_message text;
  cancel_actor text;
  cancel_reason text;
begin
  if new.state = 'failed' then
    select f.failure_class, f.message into failed_class, failed_message
    from waybill.failure as f
    where f.id = new.id and f.queue = new.queue
    order by f.failure_id desc
    limit 1;
  elsif new.state = 'cancelled' then
    select a.actor, a.detail into cancel_actor, cancel_reason
    from waybill.audit_log as a
    where a.id = new.id and a.queue = new.queue and a.action in ('cancel', 'drop')
    order by a.audit_id desc
    limit 1;
  end if;
  insert into waybill.outbox (id, kind, type, payload, correlation_id, enqueued_at)
  values (
    waybill.new_id(),
    'event',
    new.on_terminal,
    json_build_object(
      'jobId', new.id,
      'jobName', new.type,
      'queue', new.queue,
      'state', new.state,
      'attempt', new.attempt,
      'enqueuedAt', to_char(new.enqueued_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'finishedAt', to_char(new.finished_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'result', (
        select r.result::json
        from waybill.result as r
        where new.state = 'succeeded' and r.id = new.id and r.queue = new.queue
      ),
      'failureClass', failed_class,
      'failureMessage', failed_message,
      'cancelledBy', case when new.state = 'cancelled' then coalesce(cancel_actor, 'waybill') end,
      'cancelReason', case
        when new.state <> 'cancelled' then null
        when cancel_actor is null then 'expired before it could start'
        else cancel_reason
      end
    )::text,
    -- The job's id leads from the event back to the job.
    new.id::text,
    clock_timestamp()
  );
  return null;
end
$$;
