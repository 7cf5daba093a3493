-- Takes the advisory lock that dies with the worker's connection. False: an earlier connection of
-- the same worker is not gone yet.
--
-- $1 key
--
-- Never behind a transaction pooler, where the lock would stay on a connection of the pooler's.
-- Caller: the heartbeat thread of the worker's presence.
select pg_try_advisory_lock($1::bigint) as locked, pg_backend_pid() as pid
