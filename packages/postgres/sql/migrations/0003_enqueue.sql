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
--   exchange, routing_key            of kind route
--   run_at (timestamptz) or delay_ms (number): not before
--   expires_at       timestamptz
--   idempotency_key  text, with idempotency_mode 'for_a_time' (default) or 'until_end', and
--                    idempotency_ttl_ms (default 86400000) for the first
-- hint: wakes the relay at commit.
-- Returns one row per job, in order: its id (the first job's where the key was taken) and whether
-- it was deduplicated.

-- A UUIDv7 (RFC 9562): milliseconds since 1970 in the first 48 bits, then random bits.
create function waybill.new_id() returns uuid
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select (
    lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
    || '7' || substr(r.hex, 14, 3)
    || substr('89ab', 1 + (get_byte(decode(substr(r.hex, 17, 2), 'hex'), 0) & 3), 1) || substr(r.hex, 18)
  )::uuid
  from (select replace(gen_random_uuid()::text, '-', '') as hex) as r
$$;

comment on function waybill.new_id() is 'A fresh UUIDv7.';

-- The smallest UUIDv7 of an instant: bound of the inbox's partitions.
create function waybill.id_at(instant timestamptz) returns uuid
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (lpad(to_hex((extract(epoch from instant) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

comment on function waybill.id_at(timestamptz) is 'The smallest UUIDv7 of an instant.';

-- True once the job has ended, or is so old that nothing of it is left.
-- Volatile, so that it looks with a snapshot of its own: it is asked about a job that another
-- transaction enqueued while this statement waited for that transaction's key.
create function waybill.job_ended(job_id uuid) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select
    exists (select from waybill.inbox as i where i.id = job_id and i.state in ('succeeded', 'failed', 'cancelled'))
    or not (
      exists (select from waybill.inbox as i where i.id = job_id)
      or exists (select from waybill.outbox as o where o.id = job_id)
      or exists (select from waybill.timer as t where t.id = job_id)
    )
$$;

comment on function waybill.job_ended(uuid) is 'True once the job has ended, or is so old that nothing of it is left.';

create function waybill.enqueue(jobs jsonb, hint boolean default true)
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
        when not coalesce(e.job ->> 'idempotency_mode', 'for_a_time') in ('for_a_time', 'until_end')
          then 'has an idempotency_mode that is not for_a_time or until_end'
        when not octet_length(e.job ->> 'idempotency_key') between 1 and 255 then 'has an idempotency_key of other than 1 to 255 bytes'
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
    array_agg(false order by e.n)
  into ids, duplicate
  from jsonb_array_elements(jobs) with ordinality as e (job, n);

  -- Keys one by one, in one order for all callers so that two bulk enqueues cannot deadlock.
  for keyed in
    select
      e.n::integer as n,
      e.job ->> 'type' as type,
      e.job ->> 'idempotency_key' as key,
      coalesce(e.job ->> 'idempotency_mode', 'for_a_time') as mode,
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
    where k.job_id <> excluded.job_id
      and case k.mode
        when 'for_a_time' then k.expires_at <= clock_timestamp()
        else waybill.job_ended(k.job_id) and not k.job_id = any (ids)
      end;
    if not found then
      select k.job_id into strict taken_by
      from waybill.idempotency_key as k
      where k.type = keyed.type and k.key = keyed.key;
      duplicate[keyed.n] := true;
      ids[keyed.n] := taken_by;
    end if;
  end loop;

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
      case when jsonb_typeof(e.job -> 'headers') = 'object' then e.job -> 'headers' end as headers,
      (e.job ->> 'priority')::integer as priority,
      e.job ->> 'ordering_key' as ordering_key,
      e.job ->> 'correlation_id' as correlation_id,
      (e.job ->> 'expires_at')::timestamptz as expires_at,
      coalesce(
        (e.job ->> 'run_at')::timestamptz,
        instant + (e.job ->> 'delay_ms')::numeric * interval '1 millisecond'
      ) as run_at
    from jsonb_array_elements(jobs) with ordinality as e (job, n)
    where not duplicate[e.n]
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
