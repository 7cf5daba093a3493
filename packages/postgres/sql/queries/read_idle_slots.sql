-- Slots whose message no worker has claimed, and that wait for nothing else. One row back for each.
--
-- $1 milliseconds that they are old at least
--
-- Plan: the whole table of slots, which is as small as the limits; inbox_pkey and timer_pkey a row. Caller:
-- the relay's auditor.
select
  s.id::text as id,
  s.queue,
  (extract(epoch from s.dispatched_at) * 1000)::double precision as "dispatchedAtMs"
from waybill.slot as s
where not s.waiting
  and s.dispatched_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  and not exists (
    select
    from waybill.inbox as i
    where i.id = s.id
      and i.queue = s.queue
      and (
        i.dispatch >= s.dispatch
        or i.state in ('succeeded', 'failed', 'cancelled')
        or (i.state = 'running' and waybill.worker_alive(i.owner))
      )
  )
  and not exists (
    select from waybill.timer as t where t.id = s.id and t.queue = s.queue and t.kind = 'job'
  )
order by s.dispatched_at
