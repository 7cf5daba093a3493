-- What a migration needs to know about the server. Caller: migrate.ts.
select
  current_setting('server_version_num') as version,
  pg_is_in_recovery()::text as recovery,
  current_setting('transaction_read_only') as readonly,
  current_database()::text as database,
  current_user::text as username
