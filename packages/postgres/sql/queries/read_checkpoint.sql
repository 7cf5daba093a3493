-- The newest checkpoint of a job.
--
-- $1 id, $2 queue
--
-- Plan: checkpoint_pkey. Caller: the worker, before an attempt.
select c.checkpoint
from waybill.checkpoint as c
where c.id = $1::uuid
  and c.queue = $2::text
order by c.number desc
limit 1
