-- Who holds the relay's term, by the database's clock.
-- Caller: waybill doctor.
select
  coalesce(r.holder_name, r.holder::text) as holder,
  (r.lease_until is not null and r.lease_until > clock_timestamp())::text as held,
  (r.snapshot is not null)::text as started,
  (extract(epoch from clock_timestamp() - r.saved_at) * 1000)::bigint::text as saved
from waybill.relay as r
where r.shard = 0
