-- Puts a key of a queue into a tier, or takes it out of its tier. No row back where the queue's settings
-- have no such tier.
-- 1: queue, 2: key, 3: tier, or '' for none, 4: actor, 5: reason, or ''.
-- Plan: queue_pkey, queue_gate_pkey. Caller: queues.ts.
with input as materialized (
  select
    $1::text as queue, $2::text as name, nullif($3::text, '') as tier, $4::text as actor,
    nullif($5::text, '') as reason
),
allowed as (
  select n.*
  from input as n
  where n.tier is null
    or exists (
      select
      from waybill.queue as q
      where q.name = n.queue
        and q.settings #> '{keys,tiers}' ? n.tier
    )
),
deleted as (
  delete from waybill.queue_gate as g
  using allowed as a
  where a.tier is null
    and g.queue = a.queue
    and g.kind = 'key'
    and g.name = a.name
    and g.paused_at is null
    and (g.closed_until is null or g.closed_until <= statement_timestamp())
),
untiered as (
  update waybill.queue_gate as g
  set tier = null
  from allowed as a
  where a.tier is null
    and g.queue = a.queue
    and g.kind = 'key'
    and g.name = a.name
    and (g.paused_at is not null or g.closed_until > statement_timestamp())
),
tiered as (
  insert into waybill.queue_gate as g (queue, kind, name, tier)
  select a.queue, 'key', a.name, a.tier
  from allowed as a
  where a.tier is not null
  on conflict (queue, kind, name) do update
  set tier = excluded.tier
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select
    a.actor, 'set', a.queue,
    concat('key ', a.name, ': ', coalesce('tier ' || a.tier, 'no tier'), ', ' || a.reason)
  from allowed as a
)
select a.name
from allowed as a
