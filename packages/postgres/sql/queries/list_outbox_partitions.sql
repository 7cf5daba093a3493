-- Partitions of the outbox with their bounds, and the server's time.
--
-- Caller: the relay's partition keeper.
select
  p.name,
  p.lower_bound::timestamptz as lower,
  p.upper_bound::timestamptz as upper,
  clock_timestamp() as now
from waybill.list_partitions('waybill.outbox') as p
