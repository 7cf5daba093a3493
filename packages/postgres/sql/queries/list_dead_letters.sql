-- Dead letters, newest first, as JSON without their payloads.
-- 1: queue, 2: type, 3: failure class, 4: fingerprint; each '' for any.
-- 5: died_at, 6: id, 7: queue of the place to go on from; 'infinity' and the largest id at first.
-- 8: how many.
-- Plan: dead_letter_died_at_idx backwards with a limit, or dead_letter_group_idx. Caller: jobs.ts.
with input as materialized (
  select
    $1::text as queue,
    $2::text as type,
    $3::text as failure_class,
    $4::text as fingerprint,
    ($5::text)::timestamptz as after_died_at,
    ($6::text)::uuid as after_id,
    $7::text as after_queue,
    ($8::text)::bigint as rows_max
),
page as (
  -- By name: what is not asked for is not read either, and may be out of the reader's rights.
  select
    d.id, d.queue, d.type, d.version, d.attempts, d.failure_class, d.message, d.fingerprint, d.payload_base64,
    d.priority, d.ordering_key, d.correlation_id, d.enqueued_at, d.died_at
  from waybill.dead_letter as d
  where (d.died_at, d.id, d.queue)
      < ((select n.after_died_at from input as n), (select n.after_id from input as n), (select n.after_queue from input as n))
    and (select n.queue from input as n) in ('', d.queue)
    and (select n.type from input as n) in ('', d.type)
    and (select n.failure_class from input as n) in ('', d.failure_class)
    and (select n.fingerprint from input as n) in ('', d.fingerprint)
  order by d.died_at desc, d.id desc, d.queue desc
  limit (select n.rows_max from input as n)
)
select to_jsonb(p)::text as letter
from page as p
order by p.died_at desc, p.id desc, p.queue desc
