-- Deletes idempotency keys whose time is over, or whose job has ended.
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
      and waybill.job_ended(k.job_id)
    limit $1::integer
  )
)
delete from waybill.idempotency_key as k
using old as o
where k.type = o.type
  and k.key = o.key
  -- It may have been taken anew meanwhile.
  and (k.expires_at <= statement_timestamp() or (k.expires_at is null and waybill.job_ended(k.job_id)))
