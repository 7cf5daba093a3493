-- A worker tells what it may be using of its queues from now on: what is granted to it, and what it
-- still uses above that. Where there is no limit it is all that it can use. A row back for each that
-- was written, with what is granted; none for a turn that has passed.
--
-- $1 boot id, $2 JSON array of {queue, turn, used}: what it uses, and may use until the answer comes
--
-- A limit that is set at the same time: either its first grants are written before, and "granted" is
-- not null any more when the row is ours, or they see here that all is in use.
-- Plan: worker_queue_pkey, queue_pkey. Caller: the worker's shares.
with asked as materialized (
  select
    a.queue,
    a.turn,
    a.used,
    exists (
      select from waybill.queue as q where q.name = a.queue and q.settings ? 'concurrency'
    ) as limited
  from jsonb_to_recordset($2::jsonb) as a (queue text, turn bigint, used integer)
),
-- In the order in which the relay locks them.
mine as materialized (
  select s.queue
  from waybill.worker_queue as s
  where s.worker = $1::uuid
    and s.queue in (select a.queue from asked as a)
  order by s.queue
  for update of s
)
update waybill.worker_queue as s
set held = case
      when s.granted is null and not a.limited then s.concurrency
      else greatest(s.granted, a.used)
    end,
    turn = s.turn + 1
from mine as m
join asked as a on a.queue = m.queue
where s.worker = $1::uuid
  and s.queue = m.queue
  and s.turn = a.turn
returning
  s.queue,
  s.granted,
  s.held,
  s.turn::text as turn,
  s.granted is null and not a.limited as free
