-- Deletes idempotency keys whose time is over, or whose job has started or ended, by their mode.
--
-- $1 rows at most
--
-- Plan: idempotency_key_expires_at_idx. Caller: the relay's pruner.
with old as materialized (
  (
    select k.type, k.key
    from waybill.idempotency_key as k
    where k.expires_at <= statement_timestamp()
    limit $1::integer
  )
  union all
  (
    select k.type, k.key
    from waybill.idempotency_key as k
    where k.expires_at is null
      and case k.mode when 'until_start' then waybill.job_started(k.job_id) else waybill.job_ended(k.job_id) end
    limit $1::integer
  )
)
delete from waybill.idempotency_key as k
using old as o
where k.type = o.type
  and k.key = o.key
  -- It may have been taken anew meanwhile.
  and case k.mode
    when 'for_a_time' then k.expires_at <= statement_timestamp()
    when 'until_start' then waybill.job_started(k.job_id)
    else waybill.job_ended(k.job_id)
  end
