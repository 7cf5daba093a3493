-- How long the present term lasts yet, in milliseconds; 0 or less: it may be taken.
--
-- Plan: relay_pkey. Caller: a relay that stands by.
select
  r.holder_name as holder,
  coalesce(extract(epoch from r.lease_until - clock_timestamp()) * 1000, 0)::double precision as remaining
from waybill.relay as r
where r.shard = 0
