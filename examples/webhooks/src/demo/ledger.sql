-- The ledger: what was promised (the committed events) against what happened. One row.
--
-- lost:    an answered event that is not stored; a stored one without its two jobs, or without its
--          effect; a job without an end, a failed one without a dead letter, a succeeded delivery
--          that the endpoint never accepted.
-- doubled: a second job of one kind for one event, a second effect for one event.
-- ghosts:  a job, effect or accepted delivery of an event that is not stored.
--
-- Effects are rows that webhook.index wrote on its transaction, without a unique key, and the
-- counters that it raised: the two are counted apart. A delivery over HTTP is no effect in this
-- sense: nobody can commit it together with anything, so it happens at least once.

with
event as materialized (
  select e.delivery_id from webhook_event as e
),
job as materialized (
  select j.id, j.queue, j.type, j.state, (j.payload::json ->> 'deliveryId')::uuid as delivery_id
  from waybill.job as j
),
answer as (
  select a.delivery_id, a.answer from demo.answered_delivery as a
),
effect as (
  select i.delivery_id, count(*) as times from index_entry as i group by i.delivery_id
),
accepted as (
  select a.job_id, a.delivery_id, count(*) as times
  from demo.accepted_delivery as a
  group by a.job_id, a.delivery_id
),
promised as (
  select e.delivery_id, kind.type
  from event as e
  cross join (values ('webhook.index'), ('webhook.deliver')) as kind (type)
),
counted as (
  select coalesce(sum(c.events), 0) as events from repository_counter as c
),
lost as (
  select
    (select count(*) from answer as a
      where a.answer <> 'rolled back' and a.delivery_id not in (select e.delivery_id from event as e)) as events,
    (select count(*) from promised as p
      where not exists (select from job as j where j.delivery_id = p.delivery_id and j.type = p.type)) as jobs,
    (select count(*) from job as j where j.state not in ('succeeded', 'failed')) as ends,
    (select count(*) from job as j where j.state = 'failed'
      and not exists (select from waybill.dead_letter as d where d.id = j.id and d.queue = j.queue)) as dead_letters,
    (select count(*) from event as e where e.delivery_id not in (select f.delivery_id from effect as f)) as effects,
    (select greatest(0, (select count(*) from event) - c.events) from counted as c) as counts,
    (select count(*) from job as j where j.type = 'webhook.deliver' and j.state = 'succeeded'
      and j.id not in (select a.job_id from accepted as a)) as deliveries
),
doubled as (
  select
    (select coalesce(sum(again.jobs - 1), 0) from (
      select count(*) as jobs from job as j group by j.delivery_id, j.type having count(*) > 1
    ) as again) as jobs,
    (select coalesce(sum(f.times - 1), 0) from effect as f) as effects,
    (select greatest(0, c.events - (select count(*) from event)) from counted as c) as counts
),
ghosts as (
  select
    (select count(*) from answer as a
      where a.answer = 'rolled back' and a.delivery_id in (select e.delivery_id from event as e)) as events,
    (select count(*) from job as j where j.delivery_id not in (select e.delivery_id from event as e)) as jobs,
    (select coalesce(sum(f.times), 0) from effect as f
      where f.delivery_id not in (select e.delivery_id from event as e)) as effects,
    (select coalesce(sum(a.times), 0) from accepted as a
      where a.delivery_id not in (select e.delivery_id from event as e)) as deliveries
)
select
  (select count(*) from event)::integer as "events",
  (select count(distinct a.delivery_id) from answer as a where a.answer = 'rolled back')::integer as "rolledBack",
  (select count(*) from answer as a where a.answer = 'duplicate')::integer as "repeated",
  (select count(*) from job)::integer as "jobs",
  (select count(*) from job as j where j.state = 'succeeded')::integer as "succeeded",
  (select count(*) from job as j where j.state = 'failed')::integer as "deadLettered",
  (select coalesce(sum(f.times), 0) from effect as f)::integer as "effects",
  (select c.events from counted as c)::integer as "counted",
  (select count(*) from accepted)::integer as "delivered",
  (select coalesce(sum(a.times - 1), 0) from accepted as a)::integer as "deliveredAgain",
  (lost.events + lost.jobs + lost.ends + lost.dead_letters + lost.effects + lost.counts + lost.deliveries)::integer as "lost",
  (doubled.jobs + doubled.effects + doubled.counts)::integer as "doubled",
  (ghosts.events + ghosts.jobs + ghosts.effects + ghosts.deliveries)::integer as "ghosts",
  (
    select coalesce(json_object_agg(f.failure_class, f.attempts), '{}')
    from (select failure_class, count(*) as attempts from waybill.failure group by failure_class) as f
  ) as "failedAttempts",
  json_build_object('lost', row_to_json(lost), 'doubled', row_to_json(doubled), 'ghosts', row_to_json(ghosts)) as "detail"
from lost, doubled, ghosts
