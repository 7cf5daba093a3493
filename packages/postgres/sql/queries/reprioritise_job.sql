-- Changes the priority of a job that waits for its time or for its turn. One row back where it waits so.
-- 1: id, 2: queue, 3: priority, 4: actor, 5: reason, or ''.
-- Plan: timer_pkey, backlog_pkey, outbox_id_idx. Caller: waiting-acts.ts.
with input as materialized (
  select
    ($1::text)::uuid as id, $2::text as queue, ($3::text)::integer as priority, $4::text as actor,
    nullif($5::text, '') as reason
),
timed as (
  update waybill.timer as t
  set priority = n.priority
  from input as n
  where t.id = n.id
    and t.queue = n.queue
    and t.kind = 'job'
    -- These are copies of a job that runs.
    and t.reason not in ('held', 'lease')
  returning t.id, t.queue, false as backlogged
),
waiting as (
  update waybill.backlog as b
  set priority = n.priority
  from input as n
  where b.id = n.id
    and b.queue = n.queue
  returning b.id, b.queue, true as backlogged
),
changed as (
  select t.id, t.queue, t.backlogged from timed as t
  union all
  select w.id, w.queue, w.backlogged from waiting as w
),
-- So that its message and the view job say the same.
rewritten as (
  update waybill.outbox as o
  set priority = n.priority
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
  select n.actor, 'reprioritise', c.id, c.queue, concat('priority ', n.priority, ': ' || n.reason)
  from changed as c
  cross join input as n
  limit 1
)
select c.backlogged::text as backlogged
from changed as c
