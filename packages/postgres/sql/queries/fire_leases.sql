-- Lets the leases of dead owners fire: a job whose delivery was acked is dispatched again by the timers
-- as soon as its worker's lease is over, its session lock is gone, or its row is. So is a delivery that
-- another worker put aside because the owner still seemed to live: the broker may see a worker's end
-- before the database does. Rows that somebody holds are left for the next look: that may be the owner,
-- which ends the job.
--
-- $1 rows at most
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
  select o.owner
  from owner as o
  where o.owner is not null
    -- As waybill.worker_alive has it.
    and not exists (
      select
      from waybill.worker as w
      where w.id = o.owner
        and w.lease_until > statement_timestamp()
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
        )
    )
),
lease as materialized (
  select t.id, t.queue, t.kind, t.dispatch
  from dead as d
  join waybill.timer as t on t.owner = d.owner
  where t.reason in ('lease', 'held')
  limit $1::integer
  for update of t skip locked
)
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
returning t.id::text as id
