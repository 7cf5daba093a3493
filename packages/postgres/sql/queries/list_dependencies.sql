-- Dependencies with the state of their breakers and what these count now, as JSON.
-- 1: name, or '' for all.
-- Plan: reads dependency and its few outcomes. Caller: dependencies.ts.
select (
    to_jsonb(d) || jsonb_build_object(
      'probe_in_ms', case
        when d.probe_at is not null
        then greatest(0, (extract(epoch from d.probe_at - clock_timestamp()) * 1000)::bigint)
      end,
      'succeeded', n.succeeded,
      'failed', n.failed
    )
  )::text as dependency
from waybill.dependency as d
cross join lateral (
  select coalesce(sum(o.succeeded), 0) as succeeded, coalesce(sum(o.failed), 0) as failed
  from waybill.dependency_outcome as o
  where o.dependency = d.name
    and o.since = d.changed_at
    and o.second > clock_timestamp() - (d.settings ->> 'windowMs')::double precision * interval '1 millisecond'
) as n
where $1::text in ('', d.name)
order by d.name
limit 10000
