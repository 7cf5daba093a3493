-- Jobs that wait for their time or their turn: keys that are free once their job has started, and waiting
-- jobs that a later enqueue gives another content.

alter table waybill.idempotency_key
  drop constraint idempotency_key_mode_known,
  add constraint idempotency_key_mode_known check (mode in ('for_a_time', 'until_start', 'until_end'));
comment on column waybill.idempotency_key.mode is 'for_a_time: until expires_at; until_start: until the job has been claimed; until_end: until the job has ended.';
comment on column waybill.idempotency_key.expires_at is 'End of mode for_a_time; null with the others.';

-- True once the job has been claimed for the first time; one that waits for a retry has started. Events
-- and routes are claimed by many or by nobody: they have started once the relay has published them.
-- Volatile as job_ended is.
create function waybill.job_started(job_id uuid) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select
    exists (select from waybill.inbox as i where i.id = job_id and i.state <> 'queued')
    or waybill.job_ended(job_id)
    or (
      not exists (select from waybill.timer as t where t.id = job_id)
      and exists (
        select
        from waybill.outbox as o
        join waybill.relay as r on r.shard = 0
        where o.id = job_id and o.kind in ('event', 'route') and pg_visible_in_snapshot(o.tx, r.snapshot)
      )
    )
$$;

comment on function waybill.job_started(uuid) is 'True once the job has been claimed, has ended, or is so old that nothing of it is left.';

-- What two jobs have to agree in so that one can take the place of the other.
create function waybill.job_target(job jsonb) returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select array[
    coalesce(job ->> 'kind', 'job'),
    job ->> 'queue',
    job ->> 'ordering_key',
    coalesce(job ->> 'concurrency_key', job -> 'headers' ->> 'waybill-concurrency-key'),
    job ->> 'exchange',
    job ->> 'routing_key'
  ]
$$;

comment on function waybill.job_target(jsonb) is 'What two jobs have to agree in so that one can take the place of the other.';

-- Gives a job that waits, and has not started, the content of another one. False where it does not wait
-- any more, or is for another queue or key.
--
-- Whoever moves the row on at the same time is waited for, and then it is not here any more; what this
-- has changed stays locked until the transaction ends, and is left alone meanwhile. A due job is not
-- touched: callers one after the other could keep it locked for ever.
create function waybill.replace_pending(job_id uuid, job jsonb) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  new_queue constant text := job ->> 'queue';
  new_kind constant text := coalesce(job ->> 'kind', 'job');
  new_key constant text := coalesce(job ->> 'concurrency_key', job -> 'headers' ->> 'waybill-concurrency-key');
  new_version constant integer := coalesce((job ->> 'version')::integer, 1);
  new_payload constant text := coalesce(job ->> 'body', (job -> 'payload')::text, 'null');
  new_headers jsonb := case when jsonb_typeof(job -> 'headers') = 'object' then job -> 'headers' end;
  new_priority constant integer := (job ->> 'priority')::integer;
  new_expiry constant timestamptz := (job ->> 'expires_at')::timestamptz;
  debounce constant interval := (job ->> 'debounce_ms')::numeric * interval '1 millisecond';
  debounce_max constant interval :=
    coalesce((job ->> 'debounce_max_ms')::numeric * interval '1 millisecond', 10 * debounce);
begin
  if job ->> 'concurrency_key' is not null then
    new_headers := coalesce(new_headers, '{}') || jsonb_build_object('waybill-concurrency-key', new_key);
  end if;

  update waybill.timer as t
  set version = new_version,
      payload = new_payload,
      payload_base64 = false,
      headers = new_headers,
      priority = new_priority,
      correlation_id = job ->> 'correlation_id',
      expires_at = new_expiry,
      fire_at = least(clock_timestamp() + debounce, t.enqueued_at + debounce_max)
  where t.id = job_id
    and t.queue = coalesce(new_queue, '')
    and t.kind = new_kind
    and t.reason = 'delay'
    and t.fire_at > clock_timestamp()
    and t.ordering_key is not distinct from job ->> 'ordering_key'
    and t.headers ->> 'waybill-concurrency-key' is not distinct from new_key
    and t.exchange is not distinct from job ->> 'exchange'
    and t.routing_key is not distinct from job ->> 'routing_key'
    and not exists (select from waybill.inbox as i where i.id = job_id and i.state <> 'queued');
  if found then
    return true;
  end if;

  -- Of another version the payload must not go with this one's: a dispatch at the same moment may have
  -- read the rest of the envelope already.
  update waybill.backlog as b
  set payload = new_payload,
      changed = pg_current_xact_id(),
      priority = coalesce(new_priority, 0)
  where b.id = job_id
    and b.queue = new_queue
    and b.key = coalesce(new_key, '')
    and b.ordering_key is not distinct from job ->> 'ordering_key'
    and not exists (select from waybill.inbox as i where i.id = job_id and i.state <> 'queued')
    and exists (
      select
      from waybill.outbox as o
      where o.id = job_id and o.kind = 'job' and o.queue = new_queue and o.version = new_version
    );
  if not found then
    return false;
  end if;
  update waybill.outbox as o
  set payload = new_payload,
      payload_base64 = false,
      headers = new_headers,
      priority = new_priority,
      correlation_id = job ->> 'correlation_id',
      expires_at = new_expiry
  where o.id = job_id and o.kind = 'job' and o.queue = new_queue;
  insert into waybill.freed (queue, changed) values (new_queue, array[job_id]);
  return true;
end
$$;

comment on function waybill.replace_pending(uuid, jsonb) is 'Gives a job that still waits the content of another one, and puts it off; false where it does not wait any more.';
