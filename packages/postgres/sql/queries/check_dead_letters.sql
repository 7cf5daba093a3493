-- Dead letters by queue and kind of failure, the most frequent first.
-- Plan: dead_letter_group_idx. Caller: waybill doctor.
select
  d.queue,
  d.fingerprint,
  count(*)::text as count,
  min(d.failure_class) as class,
  (array_agg(d.message order by d.died_at desc))[1] as message
from waybill.dead_letter as d
group by d.queue, d.fingerprint
order by count(*) desc
limit 20
