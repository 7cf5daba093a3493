-- Deletes acts older than the retention, of jobs that the inbox has forgotten and that are no dead
-- letters. While the inbox knows a job, its acts stay: they tell who cancelled it, and a message that
-- an operator moved back is recorded once by the row of its redrive (claim_deliveries.sql). A message
-- that comes from a dead-letter queue after that is a new job to the inbox, and a new act.
--
-- $1 age in milliseconds, $2 rows at most
--
-- Plan: reads audit_log, which only people write; inbox_pkey, dead_letter_pkey. Caller: the relay's
-- pruner.
with old as materialized (
  select a.audit_id
  from waybill.audit_log as a
  where a.at < statement_timestamp() - $1::double precision * interval '1 millisecond'
    and (
      a.id is null
      or not (
        exists (
          select
          from waybill.inbox as i
          where i.id = a.id and (a.queue is null or i.queue = a.queue)
        )
        or exists (
          select
          from waybill.dead_letter as d
          where d.id = a.id and (a.queue is null or d.queue = a.queue)
        )
      )
    )
  order by a.audit_id
  limit $2::integer
)
delete from waybill.audit_log as a
using old as o
where a.audit_id = o.audit_id
