-- Dispatches lost jobs again, by way of the timers: the first time at once, after another loss before any
-- claim in 10 seconds, twice as long each time, at most an hour. So a job whose messages vanish again and
-- again, or that is claimed where this database cannot see it, does not go round in a loop. One row back
-- for each queue: how many. Whatever has been claimed meanwhile, or has a timer, is left alone.
--
-- $1 epoch, $2 JSON array of {i, q}, $3 why, in words
--
-- Plan: inbox_pkey, outbox_id_idx, slot_pkey, timer_pkey, backlog_pkey a row. Caller: the relay's auditor.
with lost as materialized (
  select distinct l.i as id, l.q as queue
  from jsonb_to_recordset(($2::text)::jsonb) as l (i uuid, q text)
  where exists (select from waybill.relay as r where r.shard = 0 and r.epoch = $1::bigint)
),
again as materialized (
  select
    l.queue as to_queue,
    greatest(o.dispatch, coalesce(s.dispatch, 0), coalesce(i.dispatch, 0)) as last,
    greatest(o.dispatch, coalesce(s.dispatch, 0)) - coalesce(i.dispatch, 0) as losses,
    o.*
  from lost as l
  cross join lateral (
    select e.*
    from waybill.outbox as e
    where e.id = l.id and ((e.kind = 'job' and e.queue = l.queue) or e.kind = 'event')
    order by e.kind = 'job' desc, e.dispatch desc, e.tx desc, e.seq desc
    limit 1
  ) as o
  left join lateral (
    select i.state, i.dispatch, i.owner from waybill.inbox as i where i.id = l.id and i.queue = l.queue limit 1
  ) as i on true
  left join lateral (
    select s.dispatch, s.waiting from waybill.slot as s where s.id = l.id and s.queue = l.queue limit 1
  ) as s on true
  where case
    when s.dispatch is null then waybill.awaits_delivery(l.id, l.queue, o.dispatch, o.tx, o.seq)
    when s.waiting then
      coalesce(i.state, 'queued') in ('queued', 'retry_waiting')
      and pg_visible_in_snapshot(o.tx, (select r.snapshot from waybill.relay as r where r.shard = 0))
      and not exists (select from waybill.backlog as b where b.id = l.id and b.queue = l.queue)
      and not exists (
        select from waybill.timer as t where t.id = l.id and t.queue = l.queue and t.kind = 'job'
      )
    when i.state is null then true
    when i.state in ('succeeded', 'failed', 'cancelled') then false
    when i.state = 'running' then i.dispatch < s.dispatch and not waybill.worker_alive(i.owner)
    else i.dispatch < s.dispatch
  end
),
parked as (
  insert into waybill.timer (
    id, queue, kind, dispatch, fire_at, reason, detail, type, version, payload, payload_base64, headers,
    priority, ordering_key, correlation_id, expires_at, enqueued_at
  )
  select
    a.id, a.to_queue, 'job', a.last + 1,
    clock_timestamp()
      + case when a.losses <= 1 then 0 else least(3600, 10 * 2 ^ least(a.losses - 2, 20)) end * interval '1 second',
    'lost', $3::text, a.type, a.version, a.payload, a.payload_base64, a.headers, a.priority, a.ordering_key,
    a.correlation_id, a.expires_at, a.enqueued_at
  from again as a
  order by a.tx, a.seq
  on conflict (id, queue, kind, dispatch) do nothing
  returning queue
),
counted as (
  select p.queue, count(*) as jobs from parked as p group by p.queue
)
update waybill.audit as a
set dispatched = a.dispatched + c.jobs
from counted as c
where a.queue = c.queue
returning a.queue, c.jobs::integer as jobs
