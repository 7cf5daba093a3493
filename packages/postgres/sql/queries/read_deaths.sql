-- The latest death of a worker that is at least $1 milliseconds ago, as text; null: none is known.
--
-- Caller: the relay's lease reaper.
select max(w.lease_until)::text as latest
from waybill.worker as w
where w.lease_until < statement_timestamp() - $1::double precision * interval '1 millisecond'
