-- Takes the news of freed slots. Nothing without the term: a relay that has lost it must not take what
-- its successor has to read.
--
-- $1 epoch, $2 number below which nothing is looked at
--
-- Plan: freed_pkey from $2 on. Caller: the relay's governor.
delete from waybill.freed as f
where f.n > $2::bigint
  and exists (select from waybill.relay as r where r.shard = 0 and r.epoch = $1::bigint)
returning
  f.n::text as n, f.queue, f.ended::text[] as ended, f.waiting::text[] as waiting,
  f.changed::text[] as changed, f.run_ms
