-- The row of a migration, written before its statements: whoever comes second fails here.
-- Parameters: none; migrate.ts fills in :version, :name and :hash, which come from this package,
-- since the statement travels in one simple query with the migration. Caller: migrate.ts.
insert into waybill.migration (version, name, hash)
values (:version, ':name', ':hash')
