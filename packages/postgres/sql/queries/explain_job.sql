-- Everything that decides when a job goes, as JSON: where it is, what is said of its queue, type and key,
-- how much of each limit is in use, and who could run it.
-- 1: id, 2: queue.
-- Plan: outbox_id_idx, inbox_pkey, timer_pkey, backlog_pkey, backlog_lane_idx, queue_pkey,
-- queue_gate_pkey; slots and workers as a whole, which are as few as the limits. Of the backlog and of the
-- outbox before the job at most 10,000 rows are counted. Caller: job-explaining.ts.
with job as materialized (
  select j.*
  from waybill.job as j
  where j.id = ($1::text)::uuid
    and j.queue = $2::text
  limit 1
),
relay as materialized (
  select
    r.snapshot,
    coalesce(r.holder_name, r.holder::text) as holder,
    coalesce(r.lease_until > clock_timestamp(), false) as held,
    r.saved_at
  from waybill.relay as r
  where r.shard = 0
),
written as materialized (
  select
    o.tx, o.seq, o.dispatch, o.headers ->> 'waybill-concurrency-key' as key,
    coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false) as relayed
  from job as j
  cross join relay as r
  cross join lateral (
    select e.tx, e.seq, e.dispatch, e.headers
    from waybill.outbox as e
    where e.id = j.id and e.queue = j.queue and e.kind = 'job'
    order by e.dispatch desc, e.tx desc, e.seq desc
    limit 1
  ) as o
),
waiting as materialized (
  select b.*
  from waybill.backlog as b
  where b.id = ($1::text)::uuid and b.queue = $2::text
),
slot as materialized (
  select s.*
  from waybill.slot as s
  where s.id = ($1::text)::uuid and s.queue = $2::text
),
place as materialized (
  select
    j.id, j.queue, j.type, j.ordering_key,
    coalesce(
      (select w.key from waiting as w),
      (select s.key from slot as s),
      (select o.key from written as o),
      to_jsonb(j) ->> 'concurrency_key',
      j.headers ->> 'waybill-concurrency-key',
      ''
    ) as key,
    coalesce((select w.place from waiting as w), (select s.place from slot as s)) as place
  from job as j
),
settings as materialized (
  select q.*
  from waybill.queue as q
  where q.name = $2::text
),
-- The first of its ordering key: the one that is dispatched, else the first that waits.
head as (
  (
    select s.id, 0 as rank, s.waiting, s.place
    from waybill.slot as s
    join place as p on s.queue = p.queue and s.ordering_key = p.ordering_key and s.id <> p.id
  )
  union all
  (
    select b.id, 1, false, b.place
    from place as p
    cross join lateral (
      select b.id, b.place
      from waybill.backlog as b
      where b.queue = p.queue
        and b.lane = '=' || p.ordering_key
        and b.place < p.place
      order by b.place
      limit 1
    ) as b
  )
  order by rank, place
  limit 1
),
alive as materialized (
  select w.id, w.name, w.state, w.running, w.blocked_ms, w.blocked_by, w.queues
  from waybill.worker as w
  where waybill.worker_alive(w.id)
)
select jsonb_build_object(
    'now', clock_timestamp(),
    'job', to_jsonb(j) - 'payload' - 'headers' - 'result',
    'key', p.key,
    'relay', (select to_jsonb(r) - 'snapshot' from relay as r),
    'written', (
      select jsonb_build_object(
        'dispatch', o.dispatch,
        'relayed', o.relayed,
        'ahead', case
          when not o.relayed then (
            select count(*)
            from (
              select
              from waybill.outbox as e
              cross join relay as r
              where e.tx >= coalesce(pg_snapshot_xmin(r.snapshot), '0'::xid8)
                and (e.tx, e.seq) < (o.tx, o.seq)
                and (r.snapshot is null or not pg_visible_in_snapshot(e.tx, r.snapshot))
              limit 10000
            ) as e
          )
        end
      )
      from written as o
    ),
    'queue', (
      select to_jsonb(q) - 'declared' - 'overrides'
      from settings as q
    ),
    'gates', (
      select coalesce(jsonb_agg(to_jsonb(g)), '[]'::jsonb)
      from waybill.queue_gate as g
      where g.queue = p.queue
        and ((g.kind = 'type' and g.name = p.type) or (g.kind = 'key' and g.name = p.key and p.key <> ''))
    ),
    'backlog', (
      select jsonb_build_object(
        'place', w.place,
        'ahead', (
          select count(*)
          from (
            select
            from waybill.backlog as b
            where b.queue = w.queue and b.lane = w.lane and b.place < w.place
            limit 10000
          ) as b
        ),
        'waiting', (
          select count(*) from (select from waybill.backlog as b where b.queue = w.queue limit 10000) as b
        )
      )
      from waiting as w
    ),
    'slot', (
      select jsonb_build_object('waiting', s.waiting, 'dispatched_at', s.dispatched_at) from slot as s
    ),
    'head', (
      select jsonb_build_object(
        'id', h.id,
        'dispatched', h.rank = 0,
        'waiting', h.waiting,
        'state', coalesce(i.state, 'queued'),
        'worker', w.name,
        'started_at', i.started_at,
        'retry_at', t.fire_at,
        'failure', t.detail
      )
      from head as h
      left join waybill.inbox as i on i.id = h.id and i.queue = p.queue
      left join waybill.worker as w on w.id = i.owner and i.state = 'running'
      left join lateral (
        select t.fire_at, t.detail
        from waybill.timer as t
        where t.id = h.id and t.queue = p.queue and t.kind = 'job' and t.reason = 'retry'
        order by t.dispatch desc
        limit 1
      ) as t on true
    ),
    'used', (
      select jsonb_build_object(
        'queue', count(*),
        'type', count(*) filter (where s.type = p.type),
        'key', count(*) filter (where s.key = p.key)
      )
      from waybill.slot as s
      where s.queue = p.queue
        and s.id <> p.id
        and not s.waiting
    ),
    'breakers', (
      select coalesce(jsonb_agg(to_jsonb(d) - 'settings' order by d.name), '[]'::jsonb)
      from settings as q
      cross join waybill.dependency as d
      where coalesce(q.settings -> 'dependsOn', '[]') ? d.name
        or coalesce(q.settings #> array['types', p.type, 'dependsOn'], '[]') ? d.name
    ),
    'workers', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'name', a.name,
        'state', a.state,
        'running', a.running,
        'blocked_ms', a.blocked_ms,
        'blocked_by', a.blocked_by,
        'share', (
          select u.granted
          from waybill.worker_queue as u
          where u.worker = a.id and u.queue = p.queue
        ),
        'capacity', (
          select sum(coalesce(u.granted, u.concurrency)) from waybill.worker_queue as u where u.worker = a.id
        )
      ) order by a.name), '[]'::jsonb)
      from alive as a
      where p.queue = any (a.queues)
    ),
    'owner', (
      select jsonb_build_object(
        'name', w.name,
        'alive', exists (select from alive as a where a.id = w.id),
        'heartbeat_age_ms', greatest(0, (extract(epoch from clock_timestamp() - w.heartbeat_at) * 1000)::bigint),
        'blocked_ms', w.blocked_ms,
        'blocked_by', w.blocked_by
      )
      from waybill.worker as w
      where w.id = j.owner
    )
  )::text as facts
from job as j
cross join place as p
