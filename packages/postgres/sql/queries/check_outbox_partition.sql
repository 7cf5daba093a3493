-- Whether an old partition of the outbox holds anything unpublished, or a job that has not ended;
-- and the snapshot that this is true in.
--
-- $1 and $2 the partition's bounds
--
-- Plan: one partition, by its bounds. Caller: the relay's partition keeper.
select
  pg_current_snapshot()::text as snapshot,
  exists (
    select
    from waybill.outbox as o
    where o.created_at >= $1::timestamptz
      and o.created_at < $2::timestamptz
      and (
        not coalesce(
          pg_visible_in_snapshot(o.tx, (select r.snapshot from waybill.relay as r where r.shard = 0)),
          false
        )
        or case o.kind
          when 'job' then not exists (
            select
            from waybill.inbox as i
            where i.id = o.id and i.queue = o.queue and i.state in ('succeeded', 'failed', 'cancelled')
          )
          when 'event' then exists (
            select
            from waybill.inbox as i
            where i.id = o.id and i.state in ('queued', 'running', 'retry_waiting')
          )
          else false
        end
      )
  ) as needed
