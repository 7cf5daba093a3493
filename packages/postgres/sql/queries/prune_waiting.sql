-- Deletes rows of waiting jobs that count for nothing: their queue has no maximum any more, or the job has
-- been claimed or has ended.
--
-- $1 rows at most
--
-- A row that an enqueue's transaction holds is left for the next time.
-- Plan: the whole table, inbox_pkey a row. Caller: the relay's pruner.
with old as materialized (
  select w.queue, w.key, w.n
  from waybill.waiting as w
  where not exists (
      select from waybill.queue as q where q.name = w.queue and q.settings -> 'maxWaiting' is not null
    )
    or exists (select from waybill.inbox as i where i.id = w.id and i.queue = w.queue)
  limit $1::integer
  for update of w skip locked
)
delete from waybill.waiting as w
using old as o
where w.queue = o.queue
  and w.key = o.key
  and w.n = o.n
