-- Every job of an id (a delivery of an event has one a subscription) with its history and its newest
-- checkpoint, as JSON.
-- 1: id, 2: queue, or '' for all.
-- Plan: outbox_id_idx, inbox_pkey, timer_pkey, failure_job_idx, audit_log_job_idx,
-- checkpoint_pkey. Caller: jobs.ts.
select (
    to_jsonb(j) || jsonb_build_object(
      'failures', (
        select coalesce(jsonb_agg(to_jsonb(f) order by f.failure_id), '[]'::jsonb)
        from waybill.failure as f
        where f.id = j.id and f.queue = j.queue
      ),
      'audit', (
        select coalesce(jsonb_agg(to_jsonb(a) order by a.audit_id), '[]'::jsonb)
        from waybill.audit_log as a
        where a.id = j.id and (a.queue = j.queue or a.queue is null)
      ),
      'checkpoint', (
        select jsonb_build_object(
          'number', c.number,
          'attempt', c.attempt,
          'checkpoint', c.checkpoint,
          'created_at', c.created_at
        )
        from waybill.checkpoint as c
        where c.id = j.id and c.queue = j.queue
        order by c.number desc
        limit 1
      )
    )
  )::text as job
from waybill.job as j
where j.id = ($1::text)::uuid
  and $2::text in ('', j.queue)
order by j.queue
