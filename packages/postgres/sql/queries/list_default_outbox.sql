-- Days of the rows that the outbox's default partition has caught.
--
-- Plan: reads outbox_default, which is empty once partitions are kept. Caller: the relay's partition
-- keeper.
select distinct date_trunc('day', o.created_at, 'UTC') as day
from waybill.outbox_default as o
order by day
