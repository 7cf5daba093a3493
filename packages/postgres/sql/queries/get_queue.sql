-- What is said of single types and keys of a queue, its workers with their shares, and what operators
-- did to it lately, as JSON.
-- 1: queue.
-- Plan: queue_gate_pkey, audit_log_job_idx; the workers, which are few. Caller: queues.ts.
select
  (
    select coalesce(jsonb_agg(to_jsonb(g) order by g.kind, g.name), '[]'::jsonb)
    from (
      select
        g.kind, g.name, g.tier, g.paused_at, g.paused_by, g.pause_reason,
        case when g.closed_until > clock_timestamp() then g.closed_until end as closed_until,
        case when g.closed_until > clock_timestamp() then g.closed_reason end as closed_reason
      from waybill.queue_gate as g
      where g.queue = $1::text
        and (g.tier is not null or g.paused_at is not null or g.closed_until > clock_timestamp())
      order by g.kind, g.name
      limit 10000
    ) as g
  )::text as gates,
  (
    select coalesce(jsonb_agg(to_jsonb(s) order by s.name, s.worker), '[]'::jsonb)
    from (
      select w.id as worker, w.name, u.concurrency, u.granted, u.held
      from waybill.worker as w
      left join waybill.worker_queue as u on u.worker = w.id and u.queue = $1::text
      where $1::text = any (w.queues)
        and waybill.worker_alive(w.id)
    ) as s
  )::text as shares,
  (
    select coalesce(jsonb_agg(to_jsonb(a) order by a.audit_id), '[]'::jsonb)
    from (
      select a.audit_id, a.at, a.actor, a.action, a.detail
      from waybill.audit_log as a
      -- Acts on no job have no id; they are few.
      where a.id is null
        and a.queue = $1::text
      order by a.audit_id desc
      limit 20
    ) as a
  )::text as audit
