-- Clock, process and facts of the server behind this connection. The process differs from what the
-- driver was told at the start where a transaction pooler is between.
-- Caller: waybill doctor.
select
  (extract(epoch from clock_timestamp()) * 1000)::bigint::text as now,
  pg_backend_pid()::text as pid,
  current_setting('server_version') as version,
  current_setting('transaction_read_only') as readonly,
  pg_is_in_recovery()::text as recovery
