-- Workers by whether they are alive, and the jobs that dead ones still own (they are taken over by
-- the next delivery, or by the lease reaper).
-- Caller: waybill doctor.
select
  w.id::text as id,
  w.name,
  w.host,
  w.version,
  array_to_json(w.queues)::text as queues,
  w.running::text as running,
  waybill.worker_alive(w.id)::text as alive,
  (extract(epoch from clock_timestamp() - w.heartbeat_at) * 1000)::bigint::text as silent
from waybill.worker as w
order by w.started_at
limit 1000
