-- Erases what an ended job holds; waybill.erase_job says what that is.
-- 1: id, 2: actor, 3: reason, or ''.
-- Plan: outbox_id_idx, inbox_pkey, timer_pkey and the keys of the side tables. Caller: job-erasure.ts.
select waybill.erase_job(($1::text)::uuid, $2::text, $3::text) as outcome
