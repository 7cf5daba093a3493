-- What the living workers of each queue can run at a time. Those that drain do not count.
--
-- Plan: reads worker_queue and worker, which have a row for each worker. Caller: the relay's dispatcher.
select s.queue, count(*)::integer as workers, sum(s.concurrency)::integer as capacity
from waybill.worker_queue as s
join waybill.worker as w on w.id = s.worker
where w.state = 'running'
  and w.stop_requested is null
  and waybill.worker_alive(w.id)
group by s.queue
