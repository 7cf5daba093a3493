-- Workers and what they say of themselves, those alive first, as JSON. Of a dead one also the running
-- jobs that it still owns: no index leads from a worker to its jobs, so the inbox is read as a whole,
-- once, and only where that is asked for and there are dead workers.
-- 1: 'true' for dead workers as well, 2: 'true' to count the jobs that they own.
-- Plan: reads the workers, which are few; then perhaps the inbox. Caller: workers.ts.
with input as materialized (
  select ($1::text)::boolean as dead, ($2::text)::boolean as counting
),
known as materialized (
  select w.*, waybill.worker_alive(w.id) as alive
  from waybill.worker as w
),
owned as materialized (
  select i.owner, count(*) as jobs
  from waybill.inbox as i
  where i.state = 'running'
    and i.owner in (select k.id from known as k where not k.alive)
  group by i.owner
)
select (
    to_jsonb(k) - 'lock_key' || jsonb_build_object(
      'heartbeat_age_ms', greatest(0, (extract(epoch from clock_timestamp() - k.heartbeat_at) * 1000)::bigint),
      'lease_left_ms', greatest(0, (extract(epoch from k.lease_until - clock_timestamp()) * 1000)::bigint),
      'owned_jobs', case
        when n.counting and not k.alive then coalesce((select o.jobs from owned as o where o.owner = k.id), 0)
      end
    )
  )::text as worker
from known as k
cross join input as n
where k.alive or n.dead
order by k.alive desc, k.started_at, k.id
limit 10000
