-- Workers that are alive, the longest running first, with what may be wrong with them. Times are in
-- milliseconds. Caller: waybill doctor.
select
  w.id::text as id,
  w.name,
  w.version,
  array_to_json(w.queues)::text as queues,
  w.running::text as running,
  w.state,
  w.stop_requested as request,
  ((extract(epoch from clock_timestamp() - w.stop_requested_at) * 1000)::bigint)::text as requested,
  w.stop_requested_by as requester,
  w.hold_ms::text as hold,
  w.blocked_ms::text as blocked,
  w.blocked_by as blocker
from waybill.worker as w
where waybill.worker_alive(w.id)
order by w.started_at
limit 1000
