-- Tells which queues a worker consumes. It uses nothing of them yet, apart from what an earlier life of
-- it left running.
--
-- $1 boot id, $2 JSON array of {queue, concurrency, held}
--
-- Plan: worker_queue_pkey. Caller: the worker's shares.
insert into waybill.worker_queue (worker, queue, concurrency, held)
select $1::uuid, a.queue, a.concurrency, a.held
from jsonb_to_recordset($2::jsonb) as a (queue text, concurrency integer, held integer)
order by a.queue
on conflict (worker, queue) do nothing
