-- Enqueues a JSON array of jobs in the transaction that is open.
-- 1: the array (see waybill.enqueue), 2: whether to wake the relay ('true' or 'false').
-- One row back per job, in order. Caller: outbox.ts.
select id, deduplicated
from waybill.enqueue(($1::text)::jsonb, ($2::text)::boolean)
