-- What others ask of a worker, in one row: which of its jobs are to be cancelled, whether it is to
-- stop, and whether anybody watches jobs.
--
-- $1 boot id, $2 JSON array of {id, queue}: jobs that it runs
--
-- Plan: worker_pkey, inbox_pkey of one partition a job. Caller: the worker's requests.
with asked as (
  select a.id, a.queue
  from jsonb_to_recordset($2::jsonb) as a (id uuid, queue text)
),
cancel as (
  select i.id, i.queue, l.actor, l.detail
  from asked as a
  join waybill.inbox as i on i.id = a.id and i.queue = a.queue
  left join lateral (
    select g.actor, g.detail
    from waybill.audit_log as g
    where g.id = i.id and g.queue = i.queue and g.action = 'cancel'
    order by g.audit_id desc
    limit 1
  ) as l on true
  where i.cancel_requested_at is not null
)
select
  (select w.stop_requested from waybill.worker as w where w.id = $1::uuid) as stop,
  (select w.stop_requested_by from waybill.worker as w where w.id = $1::uuid) as stopper,
  exists (select from waybill.watch as x where x.lease_until > clock_timestamp()) as watched,
  (
    select coalesce(
      jsonb_agg(jsonb_build_object('id', c.id, 'queue', c.queue, 'actor', c.actor, 'reason', c.detail)),
      '[]'::jsonb
    )::text
    from cancel as c
  ) as cancels
