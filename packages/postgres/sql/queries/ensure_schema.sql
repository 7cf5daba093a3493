-- Creates the schema and the table of migrations where they are missing. A schema that is there
-- already needs no privilege on the database: an administrator may have made it beforehand.
-- Parameters: none (a DO block has none). Caller: migrate.ts.
do $$
begin
  perform set_config('lock_timeout', '60s', true);
  perform pg_advisory_xact_lock(hashtextextended('waybill.migration', 0));
  if to_regnamespace(rtrim('waybill.', '.')) is null then
    execute 'create schema ' || rtrim('waybill.', '.');
  end if;
  if to_regclass('waybill.migration') is null then
    create table waybill.migration (
      version integer not null,
      name text not null,
      hash text not null,
      applied_at timestamptz not null default clock_timestamp(),
      constraint migration_pkey primary key (version)
    );
    comment on table waybill.migration is 'Migrations that were run in this schema.';
    comment on column waybill.migration.version is 'Number of the migration; the highest is the version of the schema.';
    comment on column waybill.migration.name is 'Name of the migration''s file.';
    comment on column waybill.migration.hash is 'SHA-256 of the migration''s text when it was run.';
    comment on column waybill.migration.applied_at is 'When it was run.';
  end if;
end
$$
