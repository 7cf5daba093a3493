-- Lets the leases of dead owners fire: a job whose delivery was acked is dispatched again by the timers
-- as soon as its worker's lease is over, its session lock is gone, or its row is. So is a delivery that
-- another worker put aside because the owner still seemed to live: the broker may see a worker's end
-- before the database does. Rows that somebody holds are left for the next look: that may be the owner,
-- which ends the job.
--
-- A lock is missing for a moment too where its connection was lost and its worker was not. So while the
-- worker's lease runs, a job's lease fires only where the lock was missing before. One row back for each
-- owner that seems dead: how many rows have fired, and whether its lease runs.
--
-- $1 rows at most, $2 JSON array of owners whose lock was missing before
--
-- Reads one entry of the index per owner, and pg_locks once, and only where there is an owner: nearly
-- free as long as no job is held. Two relays at once: the second finds no owner any more.
-- Plan: timer_owner_idx, worker_pkey. Caller: the relay's look at dead owners.
with recursive owner as (
  (
    select t.owner
    from waybill.timer as t
    where t.owner is not null
    order by t.owner
    limit 1
  )
  union all
  select (
    select t.owner
    from waybill.timer as t
    where t.owner > o.owner
    order by t.owner
    limit 1
  )
  from owner as o
  where o.owner is not null
),
dead as materialized (
  select o.owner, coalesce(w.lease_until > statement_timestamp(), false) as runs
  from owner as o
  left join waybill.worker as w on w.id = o.owner
  where o.owner is not null
    -- As waybill.worker_alive has it.
    and not coalesce(
      w.lease_until > statement_timestamp()
      and (
        w.lock_key is null
        or w.heartbeat_at < pg_postmaster_start_time()
        or w.lock_key = any (
          array(
            select l.classid::bigint << 32 | l.objid::bigint
            from pg_catalog.pg_locks as l
            where l.locktype = 'advisory'
              and l.granted
              and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = current_database())
              and l.objsubid = 1
          )
        )
      ),
      false
    )
),
lease as materialized (
  select t.id, t.queue, t.kind, t.dispatch, d.owner
  from dead as d
  join waybill.timer as t on t.owner = d.owner
  where t.reason = 'held'
    or (
      t.reason = 'lease'
      and (
        not d.runs
        or d.owner = any (array(select jsonb_array_elements_text($2::jsonb)::uuid))
      )
    )
  limit $1::integer
  for update of t skip locked
),
fired as (
  update waybill.timer as t
  set fire_at = clock_timestamp(),
      owner = null,
      reason = 'held',
      detail = 'its worker died'
  from lease as l
  where t.id = l.id
    and t.queue = l.queue
    and t.kind = l.kind
    and t.dispatch = l.dispatch
  returning l.owner
)
select
  d.owner::text as owner,
  (select count(*) from fired as f where f.owner = d.owner)::integer as jobs,
  d.runs
from dead as d
