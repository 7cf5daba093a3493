-- Milliseconds until the next timer is due; null: none waits.
--
-- Plan: timer_fire_at_idx. Caller: the relay's timers.
select (extract(epoch from t.fire_at - clock_timestamp()) * 1000)::double precision as delay
from waybill.timer as t
where t.fire_at < 'infinity'
order by t.fire_at
limit 1
