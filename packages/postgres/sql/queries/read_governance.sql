-- What the relay that dispatches has to know of queues, as one row of JSON texts, and the revision that
-- it is true of.
--
-- Plan: small tables as a whole. Caller: the relay's governor.
select
  f.revision::text as revision,
  f.id::text as flow,
  pg_current_snapshot()::text as snapshot,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'name', q.name,
      'settings', q.settings,
      'governed', q.governed,
      'paused', q.paused_at is not null,
      'closedMs', extract(epoch from q.closed_until - clock_timestamp()) * 1000
    )), '[]'::jsonb)::text
    from waybill.queue as q
  ) as queues,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'queue', g.queue,
      'kind', g.kind,
      'name', g.name,
      'tier', g.tier,
      'paused', g.paused_at is not null,
      'closedMs', extract(epoch from g.closed_until - clock_timestamp()) * 1000
    )), '[]'::jsonb)::text
    from waybill.queue_gate as g
  ) as gates,
  (
    select coalesce(jsonb_object_agg(d.name, d.state), '{}'::jsonb)::text
    from waybill.dependency as d
  ) as dependencies
from waybill.flow as f
