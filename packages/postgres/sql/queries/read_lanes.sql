-- The first rows of each lane of the backlog, at the start of a term: one entry of the index a lane,
-- however many rows it has.
--
-- $1 rows of a lane at most
--
-- Plan: backlog_lane_idx. Caller: the relay's governor.
with recursive lane as (
  (
    select b.queue, b.lane
    from waybill.backlog as b
    order by b.queue, b.lane
    limit 1
  )
  union all
  select n.queue, n.lane
  from lane as l
  cross join lateral (
    select b.queue, b.lane
    from waybill.backlog as b
    where (b.queue, b.lane) > (l.queue, l.lane)
    order by b.queue, b.lane
    limit 1
  ) as n
)
select
  b.id::text as id, b.queue, b.place::text as place, b.key, b.ordering_key, b.type, b.priority, b.dispatch
from lane as l
cross join lateral (
  select r.*
  from waybill.backlog as r
  where r.queue = l.queue and r.lane = l.lane
  order by r.place
  limit $1::integer
) as b
