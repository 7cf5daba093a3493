-- Removes a worker's presence: what it still owns may be taken over at once.
--
-- $1 boot id
--
-- Plan: worker_pkey, worker_queue_pkey. Caller: the heartbeat thread, and the presence where that does
-- not answer.
with shares as (
  delete from waybill.worker_queue as s
  where s.worker = $1::uuid
)
delete from waybill.worker as w
where w.id = $1::uuid
