-- Version of the schema; fails with undefined_table where there is none. Caller: migrate.ts.
select coalesce(max(version), 0)::text as version
from waybill.migration
