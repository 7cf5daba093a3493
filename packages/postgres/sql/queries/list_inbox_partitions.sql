-- Partitions of the inbox with their bounds as times (the first 48 bits of an id), and the server's
-- time.
--
-- Caller: the relay's partition keeper.
select
  p.name,
  to_timestamp(('x0000' || left(replace(p.lower_bound, '-', ''), 12))::bit(64)::bigint / 1000.0) as lower,
  to_timestamp(('x0000' || left(replace(p.upper_bound, '-', ''), 12))::bit(64)::bigint / 1000.0) as upper,
  clock_timestamp() as now
from waybill.list_partitions('waybill.inbox') as p
