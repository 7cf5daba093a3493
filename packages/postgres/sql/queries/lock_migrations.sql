-- First statement of the transaction of a migration: one migrator at a time, by a lock that ends
-- with the transaction, so that it works behind a transaction pooler and dies with the migrator.
-- A minute's wait for another migrator, but five seconds for a table: a DDL statement that waits
-- makes everybody else queue up behind it.
-- Parameters: none (it is sent together with the migration). Caller: migrate.ts.
do $$
begin
  perform set_config('statement_timeout', '0', true);
  perform set_config('lock_timeout', '60s', true);
  perform pg_advisory_xact_lock(hashtextextended('waybill.migration', 0));
  perform set_config('lock_timeout', '5s', true);
end
$$
