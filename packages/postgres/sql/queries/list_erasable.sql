-- One look at the newest ended jobs below a place, by id, as JSON: those that match and were not erased yet,
-- where the look ended, and how many jobs it saw.
-- 1: id, 2: queue of the place, 3: how many jobs to look at, 4: how many to return,
-- 5: queue, 6: type, 7: concurrency key, 8: correlation id; each '' for any. The last two are found as long
-- as the job's envelope is kept.
-- 9: only jobs that ended before this instant; 'infinity' for any.
-- Plan: inbox_pkey backwards with a limit, then outbox_id_idx, dead_letter_pkey and audit_log_job_idx a job.
-- Caller: job-erasure.ts.
with input as materialized (
  select
    ($1::text)::uuid as id,
    $2::text as queue,
    ($3::text)::bigint as seen_max,
    ($4::text)::bigint as rows_max,
    $5::text as only_queue,
    $6::text as only_type,
    $7::text as key,
    $8::text as correlation_id,
    ($9::text)::timestamptz as before
),
seen as materialized (
  select i.id, i.queue, i.type, i.state, i.finished_at
  from waybill.inbox as i
  where (i.id, i.queue) < ((select n.id from input as n), (select n.queue from input as n))
  order by i.id desc, i.queue desc
  limit (select n.seen_max from input as n)
),
matching as (
  select s.id, s.queue, s.type, s.state, s.finished_at
  from seen as s
  cross join input as n
  left join lateral (
    (
      select o.headers ->> 'waybill-concurrency-key' as key, o.correlation_id
      from waybill.outbox as o
      where o.id = s.id and o.kind in ('job', 'event')
      order by o.seq
      limit 1
    )
    union all
    (
      select d.headers ->> 'waybill-concurrency-key', d.correlation_id
      from waybill.dead_letter as d
      where d.id = s.id and d.queue = s.queue
    )
    limit 1
  ) as e on n.key <> '' or n.correlation_id <> ''
  where s.state in ('succeeded', 'failed', 'cancelled')
    and s.finished_at < n.before
    and n.only_queue in ('', s.queue)
    and n.only_type in ('', s.type)
    and (n.key = '' or n.key = e.key)
    and (n.correlation_id = '' or n.correlation_id = e.correlation_id)
    and not exists (
      select from waybill.audit_log as a where a.id = s.id and a.queue = s.queue and a.action = 'erase'
    )
  order by s.id desc, s.queue desc
  limit (select n.rows_max from input as n)
)
select
  (select coalesce(jsonb_agg(to_jsonb(m) order by m.id desc, m.queue desc), '[]'::jsonb) from matching as m)::text as jobs,
  (select count(*) from seen)::text as seen,
  (select s.id from seen as s order by s.id, s.queue limit 1)::text as id,
  (select s.queue from seen as s order by s.id, s.queue limit 1) as queue
