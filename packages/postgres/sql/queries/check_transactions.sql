-- The oldest open transaction of this database, which keeps its rows invisible to the relay and
-- old versions from being cleaned up; and transactions that were prepared and never ended.
-- Caller: waybill doctor.
select
  coalesce((extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000)::bigint, 0)::text as age,
  (array_agg(a.pid::text order by a.xact_start))[1] as pid,
  (array_agg(a.application_name order by a.xact_start))[1] as application,
  (array_agg(a.state order by a.xact_start))[1] as state,
  (select count(*)::text from pg_catalog.pg_prepared_xacts as p where p.database = current_database()) as prepared
from pg_catalog.pg_stat_activity as a
where a.datname = current_database()
  and a.xact_start is not null
  and a.pid <> pg_backend_pid()
  and a.backend_type = 'client backend'
