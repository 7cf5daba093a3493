-- Replaces the payload of a job that waits for its time or for its turn. In the backlog the row's own
-- payload is set beside that of the outbox, since a dispatch that has begun reads the outbox as it was.
-- One row back where it waits so; a dispatch at the same time takes the row as a whole or sends the new
-- payload.
-- 1: id, 2: queue, 3: payload, 4: version of the payload's shape, or '' for that of the job; a job of the
-- backlog must have that version already, 5: actor, 6: reason, or ''.
-- Plan: timer_pkey, backlog_pkey, outbox_id_idx. Caller: waiting-acts.ts.
with input as materialized (
  select
    ($1::text)::uuid as id, $2::text as queue, $3::text as payload, (nullif($4::text, ''))::integer as version,
    $5::text as actor, nullif($6::text, '') as reason
),
timed as (
  update waybill.timer as t
  set payload = n.payload,
      payload_base64 = false,
      version = coalesce(n.version, t.version)
  from input as n
  where t.id = n.id
    and t.queue = n.queue
    and t.kind = 'job'
    and t.reason in ('delay', 'retry')
  returning t.id, t.queue, false as backlogged
),
waiting as (
  update waybill.backlog as b
  set payload = n.payload,
      changed = pg_current_xact_id()
  from input as n
  where b.id = n.id
    and b.queue = n.queue
    and (
      n.version is null
      or n.version = (
        select o.version
        from waybill.outbox as o
        where o.id = n.id and o.queue = n.queue and o.kind = 'job'
        order by o.dispatch desc, o.tx desc, o.seq desc
        limit 1
      )
    )
  returning b.id, b.queue, true as backlogged
),
changed as (
  select t.id, t.queue, t.backlogged from timed as t
  union all
  select w.id, w.queue, w.backlogged from waiting as w
),
rewritten as (
  update waybill.outbox as o
  set payload = n.payload,
      payload_base64 = false,
      version = coalesce(n.version, o.version)
  from input as n
  where o.id = n.id
    and o.queue = n.queue
    and o.kind = 'job'
    and exists (select from changed)
),
news as (
  insert into waybill.freed (queue, changed)
  select c.queue, array[c.id]
  from changed as c
  where c.backlogged
),
noted as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select n.actor, 'edit', c.id, c.queue, n.reason
  from changed as c
  cross join input as n
)
select c.backlogged::text as backlogged
from changed as c
