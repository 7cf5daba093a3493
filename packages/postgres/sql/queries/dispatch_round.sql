-- One round of dispatching, all of it or nothing: rows of governed queues that were read from the outbox
-- go to a slot or to the backlog, chosen rows of the backlog to a slot. Nothing where another relay holds
-- the term, or where the settings have changed since they were read: then "held" or "current" is false.
--
-- $1 epoch, $2 revision of the settings
-- $3 JSON array of {i, q, n, k, o, t, p, d, e, s}, rows that were read: id, queue, place, concurrency key,
--    ordering key, type, priority, dispatch, enqueued at (milliseconds since 1970), true for a slot
-- $4 JSON array of {i, q}: rows of the backlog that get a slot
-- $5 JSON array of {i, q, d}: jobs that have a slot and are dispatched again
-- $6 JSON array of {i, q, d}: jobs that the broker did not take, which give their slot back
--
-- The first row back says whether it was held and current; the others are what to publish of $4 and $5,
-- each with its envelope. A row of the backlog that is missing there was cancelled or put off meanwhile.
-- The commit waits for the disk: a slot that was lost would let its job run beside the limits.
-- Plan: backlog_pkey, slot_pkey, waiting_id_idx, outbox_id_idx a row. "any (array[…])" and "is not distinct from"
-- keep the planner from beginning at a table: one that it saw empty it would read in whole for each row, and these
-- tables fill up within seconds. Caller: the relay's governor.
with durable as materialized (
  select set_config('synchronous_commit', 'on', true) as value
  where current_setting('synchronous_commit') = 'off'
),
forced as materialized (
  select count(*) as n from durable
),
term as materialized (
  select r.epoch
  from waybill.relay as r
  cross join forced as x
  where r.shard = 0
    and r.epoch = $1::bigint
    and x.n >= 0
  for share of r
),
settings as materialized (
  select f.revision from waybill.flow as f cross join term as t where f.revision = $2::bigint
),
fresh as materialized (
  select r.i, r.q, r.n, r.k, r.o, r.t, r.p, r.d, to_timestamp(r.e / 1000.0) as e, r.s
  from jsonb_to_recordset(($3::text)::jsonb) as r (
    i uuid, q text, n bigint, k text, o text, t text, p integer, d integer, e double precision, s boolean
  )
  cross join settings as c
),
kept as (
  insert into waybill.backlog as b (id, queue, place, key, ordering_key, type, priority, dispatch, enqueued_at)
  select f.i, f.q, f.n, f.k, f.o, f.t, f.p, f.d, f.e
  from fresh as f
  where not f.s
  -- A copy of a job that waits already.
  on conflict (id, queue) do update
  set dispatch = greatest(b.dispatch, excluded.dispatch)
),
-- Rows that an operator's open transaction holds are left alone, or that transaction would stop all.
free as materialized (
  select b.id, b.queue
  from jsonb_to_recordset(($4::text)::jsonb) as r (i uuid, q text)
  join waybill.backlog as b on b.id = any (array[r.i]) and b.queue is not distinct from r.q
  left join lateral (
    select s.id from waybill.slot as s where s.id = b.id and s.queue = b.queue for update skip locked
  ) as own on true
  cross join settings as c
  where (
      own.id is not null
      or not exists (select from waybill.slot as s where s.id = b.id and s.queue = b.queue)
    )
    -- Looked at again when the row is locked: what was replaced since this statement began is sent later.
    and (b.changed is null or pg_visible_in_snapshot(b.changed, pg_current_snapshot()))
  for update of b skip locked
),
taken as (
  delete from waybill.backlog as b
  using free as f
  where b.id = any (array[f.id]) and b.queue is not distinct from f.queue
  returning b.id, b.queue, b.place, b.key, b.ordering_key, b.type, b.priority, b.dispatch, b.enqueued_at, b.payload
),
slotted as (
  insert into waybill.slot as s (
    id, queue, place, key, ordering_key, type, priority, dispatch, enqueued_at
  )
  select f.i, f.q, f.n, f.k, f.o, f.t, f.p, f.d, f.e
  from fresh as f
  where f.s
  union all
  select t.id, t.queue, t.place, t.key, t.ordering_key, t.type, t.priority, t.dispatch, t.enqueued_at
  from taken as t
  -- The head of an ordering key, whose retry has come.
  on conflict (id, queue) do update
  set waiting = false,
      dispatch = excluded.dispatch,
      dispatched_at = clock_timestamp()
  returning s.id, s.queue
),
-- One that an enqueue into the full queue is about to drop is left to it.
counted as materialized (
  select w.id, w.queue
  from slotted as s
  join waybill.waiting as w on w.id = any (array[s.id]) and w.queue is not distinct from s.queue
  for update of w skip locked
),
counted_out as (
  delete from waybill.waiting as w
  using counted as c
  where w.id = any (array[c.id]) and w.queue is not distinct from c.queue
),
again as materialized (
  select s.id, s.queue, r.d
  from jsonb_to_recordset(($5::text)::jsonb) as r (i uuid, q text, d integer)
  join waybill.slot as s on s.id = any (array[r.i]) and s.queue = r.q
  cross join settings as c
  where not s.waiting
  for update of s skip locked
),
renewed as (
  update waybill.slot as s
  set dispatch = greatest(s.dispatch, a.d),
      dispatched_at = clock_timestamp()
  from again as a
  where s.id = any (array[a.id]) and s.queue = a.queue
  returning s.id, s.queue, s.dispatch
),
refused as materialized (
  select r.i, r.q, r.d
  from jsonb_to_recordset(($6::text)::jsonb) as r (i uuid, q text, d integer)
  cross join settings as c
),
-- The head of an ordering key goes on blocking its key.
waits as (
  update waybill.slot as s
  set waiting = true
  from refused as r
  where s.id = any (array[r.i]) and s.queue = r.q and s.dispatch = r.d and s.ordering_key is not null
),
returned as (
  delete from waybill.slot as s
  using refused as r
  where s.id = any (array[r.i]) and s.queue = r.q and s.dispatch = r.d and s.ordering_key is null
),
sent as materialized (
  select t.id, t.queue, t.dispatch, t.payload from taken as t
  union all
  select r.id, r.queue, r.dispatch, null from renewed as r
)
select
  exists (select from term) as held,
  exists (select from settings) as current,
  null::text as tx, null::text as seq, null::text as id, null::text as kind,
  null::integer as dispatch, null::text as queue, null::text as type,
  null::integer as version, null::text as exchange, null::text as routing_key,
  null::text as payload, null::boolean as payload_base64, null::jsonb as headers,
  null::integer as priority, null::text as ordering_key, null::text as correlation_id,
  null::timestamptz as expires_at, null::timestamptz as enqueued_at,
  null::timestamptz as created_at, null::integer as failures
union all
select
  null, null, o.tx::text, o.seq::text, s.id::text, 'job', s.dispatch, s.queue, o.type, o.version,
  null, null, coalesce(s.payload, o.payload), o.payload_base64 and s.payload is null, o.headers, o.priority,
  o.ordering_key, o.correlation_id, o.expires_at, o.enqueued_at, o.created_at, o.failures
from sent as s
cross join lateral (
  select e.*
  from waybill.outbox as e
  where e.id = s.id and e.queue = s.queue and e.kind = 'job'
  order by e.dispatch desc, e.tx desc, e.seq desc
  limit 1
) as o
