-- Deletes progress older than the retention whose job has ended.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: reads progress (an index on the time would cost every report), inbox_pkey. Caller: the relay's
-- pruner.
with old as materialized (
  select p.id, p.queue
  from waybill.progress as p
  where p.reported_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and not exists (
      select
      from waybill.inbox as i
      where i.id = p.id and i.queue = p.queue and i.state in ('queued', 'running', 'retry_waiting')
    )
  limit $2::integer
)
delete from waybill.progress as p
using old as o
where p.id = o.id
  and p.queue = o.queue
  -- It may have been reported anew meanwhile.
  and p.reported_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
