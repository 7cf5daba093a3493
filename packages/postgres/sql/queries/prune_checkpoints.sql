-- Deletes checkpoints older than the retention whose job has ended for good. Those of a job that is
-- unfinished stay however old they are, and so do those of a dead letter: a redrive goes on where the
-- job was.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: checkpoint_created_at_idx, inbox_pkey, dead_letter_pkey. Caller: the relay's pruner.
with old as materialized (
  select c.id, c.queue, c.number
  from waybill.checkpoint as c
  where c.created_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and not exists (
      select
      from waybill.inbox as i
      where i.id = c.id and i.queue = c.queue and i.state in ('queued', 'running', 'retry_waiting')
    )
    and not exists (
      select
      from waybill.dead_letter as d
      where d.id = c.id and d.queue = c.queue
    )
  order by c.created_at
  limit $2::integer
)
delete from waybill.checkpoint as c
using old as o
where c.id = o.id and c.queue = o.queue and c.number = o.number
