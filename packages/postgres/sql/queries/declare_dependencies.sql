-- Writes what dependencies jobs have. Rows that say the same already stay as they are: each change makes
-- the relay and all workers read the settings again. One row back for each that was changed.
--
-- $1 JSON array of {name, settings}; no name twice
--
-- In the order of the names, so that workers that start at the same time wait for each other.
-- Plan: dependency_pkey. Caller: the worker's start.
insert into waybill.dependency as d (name, settings)
select r.name, r.settings
from jsonb_to_recordset($1::jsonb) as r (name text, settings jsonb)
where not exists (
    select
    from waybill.dependency as k
    where k.name = r.name and k.settings = r.settings
  )
order by r.name
on conflict (name) do update
set settings = excluded.settings
where d.settings is distinct from excluded.settings
returning d.name
