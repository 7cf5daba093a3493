-- Weeks of the ids in the inbox's default partition that are the times of their jobs: UUIDv7 of the
-- last year.
--
-- Plan: reads inbox_default, which is kept small. Caller: the relay's partition keeper.
select distinct date_trunc('week', i.enqueued_at, 'UTC') as day
from waybill.inbox_default as i
where i.enqueued_at > statement_timestamp() - $1::double precision * interval '1 millisecond'
  and i.id >= waybill.id_at(date_trunc('week', i.enqueued_at, 'UTC'))
  and i.id < waybill.id_at(date_trunc('week', i.enqueued_at, 'UTC') + interval '7 days')
order by day
