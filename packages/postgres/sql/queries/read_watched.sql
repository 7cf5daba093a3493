-- Jobs as those see them who watch them, as JSON: state, progress and end, without payload, headers
-- and history. One row for each queue that knows an id.
-- 1: JSON array of job ids.
-- Plan: outbox_id_idx, inbox_pkey, timer_pkey, one look for each id. Caller: job-watches.ts.
select to_jsonb(w)::text as job
from (
  -- By name: a payload that is not asked for is not read either.
  select
    j.id, j.queue, j.type, j.version, j.state, j.attempt, j.enqueued_at, j.next_at, j.waiting_for,
    j.started_at, j.finished_at, j.cancel_requested_at, j.cancelled_by, j.cancel_reason,
    j.failure_class, j.failure_message, j.failed_at, j.stale, j.result,
    j.progress_stage, j.progress_done, j.progress_total, j.progress_percent, j.progress_at
  from waybill.job as j
  where j.id = any (array(select jsonb_array_elements_text(($1::text)::jsonb)::uuid))
) as w
