-- How many jobs of each queue the living workers run at a time, at most.
--
-- Plan: worker_queue as a whole, which has a row for each queue of each worker. Caller: the relay's governor.
select
  q.queue,
  sum(case when w.state = 'running' then q.concurrency else 0 end)::integer as capacity
from waybill.worker_queue as q
join waybill.worker as w on w.id = q.worker
where waybill.worker_alive(w.id)
group by q.queue
