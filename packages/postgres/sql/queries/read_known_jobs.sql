-- Which rows of governed queues a relay has read before: they wait in the backlog, were put off from
-- there, have been claimed, or have ended. Asked for rows that were committed before this term, some of which a former relay had read.
--
-- $1 JSON array of {id, queue, dispatch}
--
-- Plan: backlog_pkey, timer_pkey, inbox_pkey of one partition a row. Caller: the relay's governor.
select r.id::text as id, r.queue, r.dispatch
from jsonb_to_recordset(($1::text)::jsonb) as r (id uuid, queue text, dispatch integer)
where exists (
    select from waybill.backlog as b where b.id = r.id and b.queue = r.queue and b.dispatch >= r.dispatch
  )
  or exists (
    select
    from waybill.timer as t
    where t.id = r.id and t.queue = r.queue and t.kind = 'job' and t.dispatch >= r.dispatch
  )
  or exists (
    select
    from waybill.inbox as i
    where i.id = r.id
      and i.queue = r.queue
      and (i.dispatch >= r.dispatch or i.state in ('succeeded', 'failed', 'cancelled'))
  )
