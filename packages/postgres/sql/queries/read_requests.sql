-- What others ask of a worker, in one row: which of its jobs are to be cancelled, which are not its own
-- any more, whether it is to stop, and whether anybody watches jobs.
--
-- $1 boot id, $2 JSON array of {id, queue, token}: jobs that it runs
--
-- Plan: worker_pkey, inbox_pkey of one partition a job. Caller: the worker's requests.
with asked as (
  select i.id, i.queue, i.cancel_requested_at, i.token <> a.token as lost
  from jsonb_to_recordset($2::jsonb) as a (id uuid, queue text, token bigint)
  join waybill.inbox as i on i.id = a.id and i.queue = a.queue
),
cancel as (
  select a.id, a.queue, l.actor, l.detail
  from asked as a
  left join lateral (
    select g.actor, g.detail
    from waybill.audit_log as g
    where g.id = a.id and g.queue = a.queue and g.action = 'cancel'
    order by g.audit_id desc
    limit 1
  ) as l on true
  where a.cancel_requested_at is not null
    and not a.lost
)
select
  w.stop_requested as stop,
  w.stop_requested_by as stopper,
  exists (select from waybill.watch as x where x.lease_until > clock_timestamp()) as watched,
  (
    select coalesce(
      jsonb_agg(jsonb_build_object('id', c.id, 'queue', c.queue, 'actor', c.actor, 'reason', c.detail)),
      '[]'::jsonb
    )::text
    from cancel as c
  ) as cancels,
  (
    select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'queue', a.queue)), '[]'::jsonb)::text
    from asked as a
    where a.lost
  ) as lost
from (values ($1::uuid)) as me (id)
left join waybill.worker as w on w.id = me.id
