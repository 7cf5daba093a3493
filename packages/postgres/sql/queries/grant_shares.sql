-- Hands out the limits of queues to their workers. What is granted and what is in use never exceed a
-- queue's limit together, unless they do already because it was lowered: a worker's share is raised
-- only into what nobody has, and lowered at once.
--
-- $1 epoch, $2 JSON array of workers whose lock was missing before
--
-- Shares are in proportion to what workers can run at a time; what a share is short of a whole one goes
-- to the largest workers. A worker that drains is granted nothing more. A worker counts as dead a second after its lease, when its
-- handlers have been told to stop, or when its lock is missing for longer than it takes to open a
-- connection again; a row without a worker counts for nothing. One row back with the workers whose lock
-- is missing.
--
-- The rows are locked first, and read as they are then: what a worker writes comes before or after.
-- Plan: reads worker_queue, which has a row for each worker and queue, and pg_locks only where there is
-- a limit. Caller: the relay's shares.
with share as materialized (
  select s.worker, s.queue, s.concurrency, s.granted, s.held
  from waybill.worker_queue as s
  where exists (select from waybill.relay as r where r.shard = 0 and r.epoch = $1::bigint)
    and (
      s.granted is not null
      or exists (
        select from waybill.queue as q where q.name = s.queue and q.settings ? 'concurrency'
      )
    )
  order by s.queue, s.worker
  for update of s
),
seen as materialized (
  select
    w.id,
    w.state,
    w.lease_until > statement_timestamp() as leased,
    w.lease_until > statement_timestamp() - interval '1 second' as lately,
    -- As waybill.worker_alive has it.
    w.lock_key is not null
    and w.heartbeat_at >= pg_postmaster_start_time()
    and w.lock_key <> all (
      array(
        select l.classid::bigint << 32 | l.objid::bigint
        from pg_catalog.pg_locks as l
        where l.locktype = 'advisory'
          and l.granted
          and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = current_database())
          and l.objsubid = 1
      )
    ) as missing
  from waybill.worker as w
  where w.id in (select s.worker from share as s)
),
-- "counts": it may be using what it holds; "runs": it is to be given something.
judged as (
  select
    s.*,
    (q.settings ->> 'concurrency')::integer as most,
    v.id is not null and v.lately and not d.dead as counts,
    coalesce(v.leased and not d.dead and v.state = 'running', false) as runs
  from share as s
  left join waybill.queue as q on q.name = s.queue
  left join seen as v on v.id = s.worker
  cross join lateral (
    select coalesce(
      v.missing and v.id in (select jsonb_array_elements_text($2::jsonb)::uuid), false
    ) as dead
  ) as d
),
able as (
  select
    j.*,
    case when j.runs then j.concurrency else 0 end as weight,
    sum(case when j.runs then j.concurrency else 0 end) over queue as weights,
    sum(case when j.runs then j.concurrency else 0 end) over upto as weights_upto
  from judged as j
  where j.most is not null
  window
    queue as (partition by j.queue),
    upto as (partition by j.queue order by j.concurrency, j.worker)
),
-- The parts of all up to this one, less those of all before: whole numbers whose sum is exact. The
-- largest come last, where nothing is cut off.
wanted as (
  select
    a.*,
    coalesce(
      a.weights_upto * least(a.most, a.weights) / nullif(a.weights, 0)
      - (a.weights_upto - a.weight) * least(a.most, a.weights) / nullif(a.weights, 0),
      0
    )::integer as want
  from able as a
),
kept as (
  select
    w.*,
    case when w.counts then greatest(least(coalesce(w.granted, 0), w.want), w.held) else 0 end as keeps
  from wanted as w
),
raised as (
  select
    k.*,
    k.most - sum(k.keeps) over queue as free,
    greatest(0, k.want - k.keeps) as more,
    sum(greatest(0, k.want - k.keeps)) over upto as more_upto
  from kept as k
  window
    queue as (partition by k.queue),
    upto as (partition by k.queue order by k.concurrency, k.worker)
),
due as (
  select
    r.worker,
    r.queue,
    case
      when r.more = 0 then r.want
      else r.keeps + greatest(0, least(r.more, r.free - (r.more_upto - r.more)))
    end as granted
  from raised as r
  union all
  select j.worker, j.queue, null
  from judged as j
  where j.most is null
),
granted as (
  update waybill.worker_queue as s
  set granted = d.granted
  from due as d
  where s.worker = d.worker
    and s.queue = d.queue
    and s.granted is distinct from d.granted
  returning s.worker
)
select
  (select count(*) from granted as g)::integer as changed,
  (
    select coalesce(jsonb_agg(v.id), '[]'::jsonb)::text from seen as v where v.leased and v.missing
  ) as missing
