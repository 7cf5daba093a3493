-- Sends a word of one's own on the channel <schema>.job, to find out whether it comes back.
-- 1: the word.
-- Caller: job-hints.ts.
select pg_notify(replace('waybill.job', '"', ''), $1::text)::text as told
