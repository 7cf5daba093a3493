-- What a worker has to know of its queues, in one row: the settings, pauses and breakers, unless it
-- knows those of the present revision, and its shares of their limits.
--
-- $1 boot id or null, $2 revision that is known, 0 for none, $3 JSON array of queues
--
-- Plan: flow, queue and worker_queue_pkey; the rest only where the revision is another one. Caller: the
-- worker's view of the flow.
with asked as (
  select jsonb_array_elements_text($3::jsonb) as name
),
news as (
  select
    (
      select coalesce(
        jsonb_agg(
          jsonb_build_object(
            'name', q.name,
            'governed', q.governed,
            'settings', q.settings,
            'paused', q.paused_at is not null,
            'closedMs', (extract(epoch from q.closed_until - statement_timestamp()) * 1000)::bigint
          )
        ),
        '[]'::jsonb
      )
      from waybill.queue as q
      where q.name in (select a.name from asked as a)
    ) as queues,
    (
      select coalesce(
        jsonb_agg(
          jsonb_build_object(
            'queue', g.queue,
            'kind', g.kind,
            'name', g.name,
            'paused', g.paused_at is not null,
            'closedMs', (extract(epoch from g.closed_until - statement_timestamp()) * 1000)::bigint
          )
        ),
        '[]'::jsonb
      )
      from waybill.queue_gate as g
      where g.queue in (select a.name from asked as a)
        and (g.paused_at is not null or g.closed_until > statement_timestamp())
    ) as gates,
    (
      select coalesce(jsonb_agg(d.name), '[]'::jsonb)
      from waybill.dependency as d
      where d.state = 'open'
    ) as open
)
select
  f.revision::text as revision,
  (
    select jsonb_build_object('queues', n.queues, 'gates', n.gates, 'open', n.open)::text
    from news as n
    where f.revision <> $2::bigint
  ) as news,
  (
    select (extract(epoch from statement_timestamp() - r.lease_until) * 1000)::bigint::text
    from waybill.relay as r
    where r.shard = 0
  ) as relay,
  (
    select coalesce(
      jsonb_agg(
        jsonb_build_object('queue', s.queue, 'granted', s.granted, 'held', s.held, 'turn', s.turn::text)
      ),
      '[]'::jsonb
    )::text
    from waybill.worker_queue as s
    where s.worker = $1::uuid
  ) as shares
from waybill.flow as f
