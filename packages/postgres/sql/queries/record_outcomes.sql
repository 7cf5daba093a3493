-- Counts finished attempts for the breakers of their dependencies. Only attempts that began after the
-- breaker's last change count: one that began before a probe tells nothing of the dependency as it is
-- now. Rows carry the change that they were written after, so that those of a statement that overlaps
-- with a change are not counted after it. Dependencies that nobody has declared are left out.
--
-- $1 JSON array of {dependency, failure_class, age_ms, attempts}: failure_class null for attempts that
--    succeeded, age_ms how long ago they began when the statement was sent
--
-- A failure with a class that does not count shows that the dependency answers, unless the class is one
-- of jobs that did not run. In the order of the names, so that workers wait for each other; losing counts
-- in a crash of the server does no harm, so the commit does not wait for the disk.
-- Plan: dependency_pkey, dependency_outcome_pkey. Caller: the worker's dependencies.
with relaxed as materialized (
  select set_config('synchronous_commit', 'off', true) as value
),
told as materialized (
  select d.name, d.changed_at, r.attempts,
    case
      when r.failure_class is null then false
      when d.settings -> 'classes' ? r.failure_class then true
      when r.failure_class not in ('crashed', 'expired', 'no_handler', 'undecodable', 'unauthentic') then false
    end as failed
  from jsonb_to_recordset($1::jsonb) as r (
    dependency text, failure_class text, age_ms double precision, attempts integer
  )
  join waybill.dependency as d on d.name = r.dependency
  cross join relaxed as x
  where x.value = 'off'
    and statement_timestamp() - r.age_ms * interval '1 millisecond' >= d.changed_at
)
insert into waybill.dependency_outcome as o (dependency, since, second, succeeded, failed)
select t.name, t.changed_at, date_trunc('second', statement_timestamp()),
  coalesce(sum(t.attempts) filter (where not t.failed), 0),
  coalesce(sum(t.attempts) filter (where t.failed), 0)
from told as t
where t.failed is not null
group by t.name, t.changed_at
order by t.name, t.changed_at
on conflict (dependency, since, second) do update
set succeeded = o.succeeded + excluded.succeeded,
    failed = o.failed + excluded.failed
