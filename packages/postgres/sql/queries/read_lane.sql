-- The next rows of lanes of which only the first are in memory.
--
-- $1 JSON array of {queue, lane, after, rows}: place of the last row that is known, and how many at most
--
-- Plan: backlog_lane_idx from that place on. Caller: the relay's governor.
select
  b.id::text as id, b.queue, b.place::text as place, b.key, b.ordering_key, b.type, b.priority, b.dispatch
from jsonb_to_recordset(($1::text)::jsonb) as l (queue text, lane text, after bigint, rows integer)
cross join lateral (
  select r.*
  from waybill.backlog as r
  where r.queue = l.queue and r.lane = l.lane and r.place > l.after
  order by r.place
  limit l.rows
) as b
