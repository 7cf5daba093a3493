-- Replaces what an operator has set of a queue, if both its declared settings and the operator's are
-- still those that the new ones were checked with. Else no row comes back.
-- 1: queue, 2: declared, 3: overrides (both as they were read), 4: the new overrides, 5: actor,
-- 6: what is changed, in words.
-- Plan: queue_pkey. Caller: queues.ts.
with input as materialized (
  select
    $1::text as name, ($2::text)::jsonb as declared, ($3::text)::jsonb as overrides,
    ($4::text)::jsonb as changed, $5::text as actor, $6::text as detail
),
written as (
  insert into waybill.queue as q (name, overrides)
  select n.name, n.changed
  from input as n
  on conflict (name) do update
  set overrides = excluded.overrides,
      changed_at = clock_timestamp()
  where q.declared = (select n.declared from input as n)
    and q.overrides = (select n.overrides from input as n)
  returning q.name
),
noted as (
  insert into waybill.audit_log (actor, action, queue, detail)
  select n.actor, 'set', w.name, n.detail
  from written as w
  cross join input as n
)
select w.name
from written as w
