-- waybill.enqueue(jobs): the one way in, callable from any language.
--
-- jobs: a JSON array of objects with
--   type             text, required
--   queue            text; required for kind job
--   kind             'job' (default), 'event', 'route'
--   payload          any JSON value; or body: the exact JSON text to send (one of the two)
--   id               uuid; made here where absent
--   version          integer, default 1
--   headers          object of strings
--   priority         integer
--   ordering_key, correlation_id
--   concurrency_key  text of 1 to 255 bytes; the same as the header waybill-concurrency-key, and wins over it
--   exchange, routing_key            of kind route
--   run_at (timestamptz) or delay_ms (number): not before
--   debounce_ms      number: not before so many milliseconds after the last enqueue of its key (see below)
--   debounce_max_ms  number: but no later than so many after the first, default 10 * debounce_ms
--   expires_at       timestamptz
--   idempotency_key  text, with idempotency_mode 'for_a_time' (default), 'until_start' or 'until_end', and
--                    idempotency_ttl_ms (default 86400000) for the first
-- hint: wakes the relay at commit.
-- Returns one row per job, in order: its id (the first job's where the key was taken) and whether
-- it was deduplicated.
--
-- With debounce_ms the mode is until_start, and an enqueue whose key stands for a job that still waits
-- (delayed, or in the backlog of a governed queue) replaces that job's content and puts it off. Whatever
-- else the key stands for, a due, dispatched or running job, is left alone: the key goes to a new job. So
-- the last content always runs, and starts after the transaction that gave it.
--
-- Where a queue has a maximum of waiting jobs and is full, raises SQLSTATE WB001 with a JSON object
-- {key, max, queue} in the message, or cancels the jobs that have waited longest. Enqueues to such a queue
-- take turns, from here to the end of their transactions.

-- What is wrong with the concurrency key or the debounce of a job that is to be enqueued; null: nothing.
create function waybill.enqueue_fault(job jsonb) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when not octet_length(coalesce(job ->> 'concurrency_key', job -> 'headers' ->> 'waybill-concurrency-key')) between 1 and 255
      then 'has a concurrency_key of other than 1 to 255 bytes'
    when job ->> 'debounce_max_ms' is not null and job ->> 'debounce_ms' is null then 'has a debounce_max_ms without debounce_ms'
    when job ->> 'debounce_ms' is null then null
    when jsonb_typeof(job -> 'debounce_ms') <> 'number' then 'has a debounce_ms that is not a number from 1 on'
    when (job ->> 'debounce_ms')::numeric < 1 then 'has a debounce_ms that is not a number from 1 on'
    when jsonb_typeof(job -> 'debounce_max_ms') not in ('number', 'null')
      then 'has a debounce_max_ms that is not a number from debounce_ms on'
    when (job ->> 'debounce_max_ms')::numeric < (job ->> 'debounce_ms')::numeric
      then 'has a debounce_max_ms that is not a number from debounce_ms on'
    when job ->> 'idempotency_key' is null then 'has a debounce_ms without an idempotency_key'
    when job ->> 'run_at' is not null or job ->> 'delay_ms' is not null
      then 'has a debounce_ms together with run_at or delay_ms'
    when job ->> 'idempotency_mode' <> 'until_start' then 'has a debounce_ms with an idempotency_mode other than until_start'
  end
$$;

comment on function waybill.enqueue_fault(jsonb) is 'What is wrong with the concurrency key or the debounce of a job that is to be enqueued; null: nothing.';

create or replace function waybill.enqueue(jobs jsonb, hint boolean default true)
returns table (id text, deduplicated text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  instant constant timestamptz := clock_timestamp();
  refused record;
  keyed record;
  taken_by uuid;
  -- Ids by place in the array; ids of deduplicated jobs are replaced by the first job's.
  ids uuid[];
  duplicate boolean[];
  -- True where nothing is written for the place.
  skipped boolean[];
  -- Place that the last key which was given away went to.
  earlier integer;
  keys boolean;
  bounded boolean;
begin
  if jsonb_typeof(jobs) is distinct from 'array' then
    raise exception 'waybill.enqueue needs a JSON array of jobs, got %', coalesce(jsonb_typeof(jobs), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Wrap a single job in [ ].';
  end if;

  -- The first job that is wrong, with what is wrong. Delayed jobs meet no constraint before they
  -- fire, when nobody is there to be told.
  select c.n - 1 as index, c.fault into refused
  from (
    select
      e.n,
      case
        when jsonb_typeof(e.job) <> 'object' then 'is not an object'
        when not coalesce(length(e.job ->> 'type') between 1 and 255, false) then 'needs a type of 1 to 255 characters'
        when coalesce(e.job ->> 'kind', 'job') not in ('job', 'event', 'route') then 'has a kind that is not job, event or route'
        when coalesce(e.job ->> 'kind', 'job') = 'job' and e.job ->> 'queue' is null then 'needs a queue'
        when coalesce(e.job ->> 'kind', 'job') <> 'job' and e.job ->> 'queue' is not null then 'has a queue, which only kind job has'
        when e.job ->> 'queue' !~ '^[a-z0-9][a-z0-9._-]{0,62}$' then 'has a queue name with other than a-z, 0-9, dot, _ and -'
        when (e.job ->> 'kind' is not distinct from 'route') <> (e.job ->> 'exchange' is not null and e.job ->> 'routing_key' is not null)
          then 'needs exchange and routing_key together with kind route, and only with it'
        when e.job ? 'body' and e.job ? 'payload' then 'has both payload and body'
        when e.job ? 'body' and jsonb_typeof(e.job -> 'body') <> 'string' then 'has a body that is not a text'
        when jsonb_typeof(e.job -> 'headers') not in ('object', 'null') then 'has headers that are not an object'
        when jsonb_typeof(e.job -> 'headers') = 'object'
          and exists (select from jsonb_each(e.job -> 'headers') as h where jsonb_typeof(h.value) <> 'string')
          then 'has a header that is not a text'
        when not coalesce(e.job ->> 'idempotency_mode', 'for_a_time') in ('for_a_time', 'until_start', 'until_end')
          then 'has an idempotency_mode that is not for_a_time, until_start or until_end'
        when not octet_length(e.job ->> 'idempotency_key') between 1 and 255 then 'has an idempotency_key of other than 1 to 255 bytes'
        -- Apart, since few jobs have them and every enqueue pays for the length of this statement.
        when e.job ?| array['concurrency_key', 'debounce_ms', 'debounce_max_ms']
          or e.job -> 'headers' ? 'waybill-concurrency-key' then waybill.enqueue_fault(e.job)
      end as fault
    from jsonb_array_elements(jobs) with ordinality as e (job, n)
  ) as c
  where c.fault is not null
  order by c.n
  limit 1;
  if found then
    raise exception 'waybill.enqueue: job % %', refused.index, refused.fault
      using errcode = 'invalid_parameter_value';
  end if;

  select
    array_agg(coalesce((e.job ->> 'id')::uuid, waybill.new_id()) order by e.n),
    array_agg(false order by e.n),
    -- Asked here, so that jobs without a key, and queues without a maximum, pay for no statement of their own.
    coalesce(bool_or(e.job ? 'idempotency_key'), false),
    coalesce(bool_or(e.job ->> 'queue' in (select q.name from waybill.queue as q where q.settings -> 'maxWaiting' is not null)), false)
  into ids, duplicate, keys, bounded
  from jsonb_array_elements(jobs) with ordinality as e (job, n);

  skipped := duplicate;
  -- Keys one by one, in one order for all callers so that two bulk enqueues cannot deadlock.
  if keys then
    for keyed in
      select
        e.n::integer as n,
        e.job ->> 'type' as type,
        e.job ->> 'idempotency_key' as key,
        e.job ->> 'debounce_ms' is not null as debounced,
        case
          when e.job ->> 'debounce_ms' is not null then 'until_start'
          else coalesce(e.job ->> 'idempotency_mode', 'for_a_time')
        end as mode,
        coalesce((e.job ->> 'idempotency_ttl_ms')::numeric, 86400000) as ttl_ms
      from jsonb_array_elements(jobs) with ordinality as e (job, n)
      where e.job ->> 'idempotency_key' is not null
      order by e.job ->> 'type', e.job ->> 'idempotency_key', e.n
    loop
      insert into waybill.idempotency_key as k (type, key, job_id, mode, expires_at)
      values (
        keyed.type,
        keyed.key,
        ids[keyed.n],
        keyed.mode,
        case when keyed.mode = 'for_a_time' then instant + keyed.ttl_ms * interval '1 millisecond' end
      )
      on conflict on constraint idempotency_key_pkey do update
      set job_id = excluded.job_id,
          mode = excluded.mode,
          expires_at = excluded.expires_at,
          created_at = excluded.created_at
      where not keyed.debounced
        and k.job_id <> excluded.job_id
        and case k.mode
          when 'for_a_time' then k.expires_at <= clock_timestamp()
          when 'until_start' then waybill.job_started(k.job_id) and not k.job_id = any (ids)
          else waybill.job_ended(k.job_id) and not k.job_id = any (ids)
        end;
      if found then
        earlier := keyed.n;
        continue;
      end if;

      -- The key's row is locked now, also where it was not changed: who enqueues with it next waits for
      -- the end of this transaction.
      select k.job_id into strict taken_by
      from waybill.idempotency_key as k
      where k.type = keyed.type and k.key = keyed.key;
      if keyed.debounced then
        -- The place before this one has the key, and is delayed as well: it is not written yet, and is not.
        if ids[earlier] = taken_by
          and not skipped[earlier]
          and waybill.job_target(jobs -> (earlier - 1)) = waybill.job_target(jobs -> (keyed.n - 1))
          and coalesce(
            jobs -> (earlier - 1) ->> 'debounce_ms' is not null
              or (jobs -> (earlier - 1) ->> 'run_at')::timestamptz > instant
              or (jobs -> (earlier - 1) ->> 'delay_ms')::numeric > 0,
            false
          )
        then
          skipped[earlier] := true;
          earlier := keyed.n;
        elsif waybill.replace_pending(taken_by, jobs -> (keyed.n - 1)) then
          skipped[keyed.n] := true;
        else
          update waybill.idempotency_key as k
          set job_id = ids[keyed.n],
              mode = keyed.mode,
              expires_at = null,
              created_at = instant
          where k.type = keyed.type and k.key = keyed.key;
          earlier := keyed.n;
          continue;
        end if;
      else
        skipped[keyed.n] := true;
      end if;
      duplicate[keyed.n] := true;
      ids[keyed.n] := taken_by;
    end loop;
  end if;

  if bounded then
    perform waybill.admit_jobs(jobs, ids, skipped);
  end if;

  with job as (
    select
      e.n,
      ids[e.n] as id,
      coalesce(e.job ->> 'kind', 'job') as kind,
      e.job ->> 'queue' as queue,
      e.job ->> 'type' as type,
      coalesce((e.job ->> 'version')::integer, 1) as version,
      e.job ->> 'exchange' as exchange,
      e.job ->> 'routing_key' as routing_key,
      coalesce(e.job ->> 'body', (e.job -> 'payload')::text, 'null') as payload,
      case
        when e.job ->> 'concurrency_key' is not null then
          case when jsonb_typeof(e.job -> 'headers') = 'object' then e.job -> 'headers' else '{}' end
            || jsonb_build_object('waybill-concurrency-key', e.job ->> 'concurrency_key')
        when jsonb_typeof(e.job -> 'headers') = 'object' then e.job -> 'headers'
      end as headers,
      (e.job ->> 'priority')::integer as priority,
      e.job ->> 'ordering_key' as ordering_key,
      e.job ->> 'correlation_id' as correlation_id,
      (e.job ->> 'expires_at')::timestamptz as expires_at,
      coalesce(
        (e.job ->> 'run_at')::timestamptz,
        instant + coalesce(e.job ->> 'delay_ms', e.job ->> 'debounce_ms')::numeric * interval '1 millisecond'
      ) as run_at
    from jsonb_array_elements(jobs) with ordinality as e (job, n)
    where not skipped[e.n]
  ),
  delayed as (
    insert into waybill.timer (
      id, queue, kind, dispatch, fire_at, reason, type, version, exchange, routing_key, payload,
      headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
    )
    select
      j.id, coalesce(j.queue, ''), j.kind, 1, j.run_at, 'delay', j.type, j.version, j.exchange, j.routing_key, j.payload,
      j.headers, j.priority, j.ordering_key, j.correlation_id, j.expires_at, instant
    from job as j
    where j.run_at > instant
    order by j.n
  )
  insert into waybill.outbox (
    id, kind, queue, type, version, exchange, routing_key, payload,
    headers, priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    j.id, j.kind, j.queue, j.type, j.version, j.exchange, j.routing_key, j.payload,
    j.headers, j.priority, j.ordering_key, j.correlation_id, j.expires_at, instant
  from job as j
  where j.run_at is null or j.run_at <= instant
  order by j.n;

  if bounded then
    perform waybill.make_room(ids);
  end if;

  if hint then
    -- Channel <schema>.wake; listen_wake.sql listens to it.
    perform pg_notify(replace('waybill.wake', '"', ''), '');
  end if;

  return query
  select u.id::text, u.duplicate::text
  from unnest(ids, duplicate) with ordinality as u (id, duplicate, n)
  order by u.n;
end
$$;

comment on function waybill.enqueue(jsonb, boolean) is 'Enqueues a JSON array of jobs in the caller''s transaction; one row back per job, in order: id, deduplicated.';
