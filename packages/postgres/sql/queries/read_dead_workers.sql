-- Workers whose lease is over and whose jobs have not been dispatched again since. One that renewed
-- its lease at the very moment at which it was taken for dead comes up again when it is.
--
-- Plan: reads worker, which the pruner keeps small. Caller: the relay's look at dead owners.
select w.id::text as id, w.running
from waybill.worker as w
where w.lease_until <= statement_timestamp()
  and (w.swept_at is null or w.swept_at < w.lease_until)
order by w.lease_until
limit 1000
