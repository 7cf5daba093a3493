-- One look at the newest jobs below a place, by id, as JSON: the jobs that match, where the look
-- ended, and how many it saw. Each source gives its newest `seen_max` keys by an index; the newest of
-- all are among them, whatever is in which. Only the jobs that are returned are read whole.
-- 1: id, 2: queue of the place, 3: how many jobs to look at, 4: how many to return,
-- 5: state, 6: queue, 7: type, 8: text that occurs in id, type, correlation id or ordering key; each
-- '' for any.
-- Plan: outbox_id_idx, inbox_pkey and timer_pkey backwards with a limit; no sort of a table.
-- Caller: jobs.ts.
with input as materialized (
  select
    ($1::text)::uuid as id,
    $2::text as queue,
    ($3::text)::bigint as seen_max,
    ($4::text)::bigint as rows_max,
    $5::text as state,
    $6::text as only_queue,
    $7::text as only_type,
    lower($8::text) as search
),
known as (
  (
    select o.id, o.queue, o.type, lower(concat_ws(' ', o.id, o.type, o.correlation_id, o.ordering_key)) as words
    from waybill.outbox as o
    where o.kind = 'job'
      and o.dispatch = 1
      and o.id <= (select n.id from input as n)
      and (o.id, o.queue) < ((select n.id from input as n), (select n.queue from input as n))
    order by o.id desc
    limit (select n.seen_max from input as n)
  )
  union all
  (
    select t.id, t.queue, t.type, lower(concat_ws(' ', t.id, t.type, t.correlation_id, t.ordering_key)) as words
    from waybill.timer as t
    where t.kind = 'job'
      and t.dispatch = 1
      and t.reason = 'delay'
      and (t.id, t.queue) < ((select n.id from input as n), (select n.queue from input as n))
    order by t.id desc, t.queue desc
    limit (select n.seen_max from input as n)
  )
  union all
  (
    select i.id, i.queue, i.type, lower(concat_ws(' ', i.id, i.type)) as words
    from waybill.inbox as i
    where (i.id, i.queue) < ((select n.id from input as n), (select n.queue from input as n))
    order by i.id desc, i.queue desc
    limit (select n.seen_max from input as n)
  )
),
seen as (
  select k.id, k.queue, min(k.type) as type, string_agg(k.words, ' ') as words
  from known as k
  group by k.id, k.queue
  order by k.id desc, k.queue desc
  limit (select n.seen_max from input as n)
),
matching as (
  select s.id, s.queue
  from seen as s
  cross join input as n
  left join lateral (
    select i.state
    from waybill.inbox as i
    where i.id = s.id and i.queue = s.queue
  ) as i on n.state <> ''
  where n.state in ('', coalesce(i.state, 'queued'))
    and n.only_queue in ('', s.queue)
    and n.only_type in ('', s.type)
    and (n.search = '' or position(n.search in s.words) > 0)
  order by s.id desc, s.queue desc
  limit (select n.rows_max from input as n)
),
page as (
  select m.id, m.queue, to_jsonb(j) as job
  from matching as m
  cross join lateral (
    -- By name: what is not asked for is not read either, and may be out of the reader's rights.
    select
      j.id, j.queue, j.type, j.version, j.state, j.relayed, j.payload_base64, j.priority, j.ordering_key,
      j.correlation_id, j.attempt, j.crashes, j.dispatch, j.deaths, j.owner, j.worker, j.enqueued_at, j.next_at,
      j.waiting_for, j.waiting_detail, j.expires_at, j.started_at, j.finished_at, j.cancel_requested_at,
      j.failure_class, j.failure_message, j.failed_at, j.progress_stage, j.progress_done, j.progress_total,
      j.progress_percent, j.progress_at, j.stale, j.cancelled_by, j.cancel_reason, j.on_terminal, j.concurrency_key
    from waybill.job as j
    where j.id = m.id and j.queue = m.queue
    limit 1
  ) as j
)
select
  (select coalesce(jsonb_agg(p.job order by p.id desc, p.queue desc), '[]'::jsonb) from page as p)::text as jobs,
  (select count(*) from matching)::text as matched,
  (select count(*) from seen)::text as seen,
  (select s.id from seen as s order by s.id, s.queue limit 1)::text as id,
  (select s.queue from seen as s order by s.id, s.queue limit 1) as queue
