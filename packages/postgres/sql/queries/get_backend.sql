-- The server process behind this connection: another one than the driver was told at the start
-- means that a pooler is between.
-- Caller: the worker's connections.
select pg_backend_pid() as pid
