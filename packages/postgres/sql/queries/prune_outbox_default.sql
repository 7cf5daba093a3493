-- Deletes from the outbox's default partition what a partition of its own would have been dropped
-- with: old, published, ended.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: reads outbox_default, which is empty once partitions are kept. Caller: the relay's pruner.
with old as materialized (
  select o.tx, o.seq
  from waybill.outbox_default as o
  where o.created_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and pg_visible_in_snapshot(o.tx, (select r.snapshot from waybill.relay as r where r.shard = 0))
    and case o.kind
      when 'job' then exists (
        select
        from waybill.inbox as i
        where i.id = o.id and i.queue = o.queue and i.state in ('succeeded', 'failed', 'cancelled')
      )
      when 'event' then not exists (
        select
        from waybill.inbox as i
        where i.id = o.id and i.state in ('queued', 'running', 'retry_waiting')
      )
      else true
    end
  limit $2::integer
)
delete from waybill.outbox_default as o
using old as d
where o.tx = d.tx and o.seq = d.seq
