-- Migrations that were run in the schema, oldest first. The table is small. Caller: migrate.ts.
select version::text as version, name, hash
from waybill.migration
order by migration.version
