-- The auditor: what is known of each queue's books, who receives which event, the marker that tells a
-- broker from one that was wiped, and the origin that tells messages of a database from those of an
-- earlier life of it.

alter table waybill.relay add column marker text;
comment on column waybill.relay.marker is 'Name of an exchange at the broker that is there as long as what was published is; null: none was declared yet.';

-- How far each queue is audited. A row is written when the auditor has moved, never for a job.
create table waybill.audit (
  queue text not null,
  since pg_snapshot not null default '1:1:',
  until pg_snapshot,
  position_tx xid8 not null default '0',
  position_seq bigint not null default -1,
  lost pg_snapshot,
  lost_at timestamptz,
  lost_why text,
  dispatched bigint not null default 0,
  moved_at timestamptz not null default clock_timestamp(),
  constraint audit_pkey primary key (queue)
) with (fillfactor = 50);

comment on table waybill.audit is 'How far the books of each queue are proven: what is visible in since has been claimed, or waits where it is brought forward.';
comment on column waybill.audit.queue is 'Queue or subscription that a worker of this database consumes.';
comment on column waybill.audit.since is 'Everything visible in it is accounted for.';
comment on column waybill.audit.until is 'Upper end of the stretch that is being looked at; null: none.';
comment on column waybill.audit.position_tx is 'Last place of the stretch that is accounted for.';
comment on column waybill.audit.position_seq is 'Last place of the stretch that is accounted for.';
comment on column waybill.audit.lost is 'Whatever is visible in it and was not claimed counts as lost, without further proof; null: nothing.';
comment on column waybill.audit.lost_at is 'When that was said: slots of before it are lost as well.';
comment on column waybill.audit.lost_why is 'Why, in words.';
comment on column waybill.audit.dispatched is 'How many lost jobs were dispatched again, ever.';
comment on column waybill.audit.moved_at is 'When the row was last written.';

-- Which subscriptions receive an event: the broker alone knew.
create table waybill.subscription (
  queue text not null,
  event text not null,
  since timestamptz not null default clock_timestamp(),
  constraint subscription_pkey primary key (queue, event)
);

comment on table waybill.subscription is 'Events of each subscription, as its workers last declared them.';
comment on column waybill.subscription.queue is 'Name of the subscription, which is that of its queue.';
comment on column waybill.subscription.event is 'Name of the event.';
comment on column waybill.subscription.since is 'When it was declared: events of before then may never have reached it.';

alter table waybill.timer
  drop constraint timer_reason_known,
  add constraint timer_reason_known check (reason in (
    'delay', 'retry', 'held', 'lease', 'no_handler', 'unroutable', 'nacked', 'refused', 'ungoverned', 'lost', 'orphan'
  ));
comment on column waybill.timer.reason is 'delay: asked for by the producer; retry: next attempt; held: a copy of a job that another worker runs; lease: protects a running job whose delivery was acked; no_handler: no worker knew the type or version; unroutable, nacked, refused: what the broker said; ungoverned: came to a governed queue without a slot; lost: the broker has lost it, it is dispatched again; orphan: a message whose job this database does not know.';

create function waybill.awaits_delivery(
  job_id uuid, queue_name text, dispatched integer, at_tx xid8, at_seq bigint
) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (
      select case
        when i.state in ('succeeded', 'failed', 'cancelled') then false
        when i.state = 'running' then i.dispatch < dispatched and not waybill.worker_alive(i.owner)
        else true
      end
      from waybill.inbox as i
      where i.id = job_id and i.queue = queue_name
    ),
    true
  )
  and not exists (
    select from waybill.timer as t where t.id = job_id and t.queue = queue_name and t.kind = 'job'
  )
  and not exists (select from waybill.backlog as b where b.id = job_id and b.queue = queue_name)
  and not exists (select from waybill.slot as s where s.id = job_id and s.queue = queue_name)
  and not exists (
    select
    from waybill.outbox as o
    where o.id = job_id
      and o.queue = queue_name
      and o.kind = 'job'
      and (
        o.dispatch > dispatched
        or (o.dispatch = dispatched and (o.tx, o.seq) > (at_tx, at_seq))
      )
  )
$$;

comment on function waybill.awaits_delivery(uuid, text, integer, xid8, bigint) is 'True where nothing but the message of this very row of the outbox brings the job forward: no worker has claimed it, and it waits nowhere in the database.';

create function waybill.origin() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  timeline text;
begin
  begin
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception
    when others then
      timeline := '';
  end;
  return (select f.id::text from waybill.flow as f) || ':' || 'waybill.outbox'::regclass::oid::text || ':' || timeline;
end
$$;

comment on function waybill.origin() is 'Identity of this database in its present life: another one after a failover, a restore to an earlier time, or from a dump.';

-- Asked by workers, which need no right to read the outbox for it.
create function waybill.is_orphan(message_origin text, job_id uuid, queue_name text, enqueued_at timestamptz)
returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select split_part(message_origin, ':', 1) = (select f.id::text from waybill.flow as f)
    and enqueued_at >= coalesce(
      (select o.created_at from waybill.outbox as o order by o.tx, o.seq limit 1),
      clock_timestamp() - interval '1 hour'
    )
    and not exists (select from waybill.inbox as i where i.id = job_id and i.queue = queue_name)
    and not exists (
      select from waybill.outbox as o
      where o.id = job_id and (o.kind = 'event' or (o.kind = 'job' and o.queue = queue_name))
    )
    and not exists (
      select from waybill.timer as t where t.id = job_id and t.queue = queue_name and t.kind = 'job'
    )
$$;

comment on function waybill.is_orphan(text, uuid, text, timestamptz) is 'True of a message that an earlier life of this database has published, and whose job this one does not know, although its outbox reaches back to it.';

revoke all on function waybill.is_orphan(text, uuid, text, timestamptz) from public;
