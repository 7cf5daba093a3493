-- Slots whose message no worker has claimed, and that wait for nothing else; and heads of ordering keys whose
-- retry is nowhere: not in the timers, not in the backlog, not in the part of the outbox that is still to be read.
-- One row back for each.
--
-- $1 milliseconds that they are old at least
--
-- Plan: the whole table of slots, which is as small as the limits; inbox_pkey and timer_pkey a row, and
-- backlog_pkey and outbox_id_idx where one waits. Caller: the relay's auditor.
select
  s.id::text as id,
  s.queue,
  (extract(epoch from s.dispatched_at) * 1000)::double precision as "dispatchedAtMs"
from waybill.slot as s
where s.dispatched_at < statement_timestamp() - $1::double precision * interval '1 millisecond'
  and not exists (
    select
    from waybill.inbox as i
    where i.id = s.id
      and i.queue = s.queue
      and (
        (i.dispatch >= s.dispatch and not s.waiting)
        or i.state in ('succeeded', 'failed', 'cancelled')
        or (i.state = 'running' and waybill.worker_alive(i.owner))
      )
  )
  and not exists (
    select from waybill.timer as t where t.id = s.id and t.queue = s.queue and t.kind = 'job'
  )
  and (
    not s.waiting
    or (
      not exists (select from waybill.backlog as b where b.id = s.id and b.queue = s.queue)
      and (
        select pg_visible_in_snapshot(o.tx, r.snapshot)
        from waybill.outbox as o
        cross join waybill.relay as r
        where o.id = s.id and o.queue = s.queue and o.kind = 'job' and r.shard = 0
        order by o.dispatch desc, o.tx desc, o.seq desc
        limit 1
      )
    )
  )
order by s.dispatched_at
