-- Sends the wake-up hint; the relay does so to find out whether hints reach it.
--
-- $1 channel
--
-- Caller: the relay's wake-up.
select pg_notify($1::text, '')
