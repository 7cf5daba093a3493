-- A page of what was published between two snapshots: which jobs of some queues, and which deliveries of
-- events to some subscriptions, wait for nothing but their message. The first row back says how many rows
-- were looked at and the place of the last; the others are jobs, by place.
--
-- $1 JSON array of queues, $2 lower and $3 upper snapshot, $4 and $5 last place looked at, $6 rows at most
--
-- As the relay's windows: rows of transactions that were in progress at the lower snapshot by their ids,
-- and rows of later ones, so that neither long transactions nor late commits matter.
-- Plan: outbox_tx_seq_idx from the place on; inbox_pkey a row, and the rest of awaits_delivery only for
-- those that have not ended. Caller: the relay's auditor.
with bounds as materialized (
  select
    $2::pg_snapshot as since,
    $3::pg_snapshot as until,
    array(select pg_snapshot_xip($2::pg_snapshot)) as late
),
scanned as materialized (
  select u.*
  from (
    (
      select o.tx, o.seq, o.id, o.kind, o.queue, o.type, o.dispatch, o.created_at
      from bounds as b, waybill.outbox as o
      where o.tx = any (b.late)
        and (o.tx, o.seq) > ($4::xid8, $5::bigint)
        and pg_visible_in_snapshot(o.tx, b.until)
      order by o.tx, o.seq
      limit $6::integer
    )
    union all
    (
      select o.tx, o.seq, o.id, o.kind, o.queue, o.type, o.dispatch, o.created_at
      from waybill.outbox as o
      where o.tx >= pg_snapshot_xmax($2::pg_snapshot)
        and o.tx < pg_snapshot_xmax($3::pg_snapshot)
        and (o.tx, o.seq) > ($4::xid8, $5::bigint)
        and pg_visible_in_snapshot(o.tx, $3::pg_snapshot)
      order by o.tx, o.seq
      limit $6::integer
    )
  ) as u
  order by u.tx, u.seq
  limit $6::integer
),
wanted as (
  select s.tx, s.seq, s.id, s.queue, s.dispatch
  from scanned as s
  where s.kind = 'job'
    and s.queue in (select jsonb_array_elements_text(($1::text)::jsonb))
  union all
  select s.tx, s.seq, s.id, b.queue, s.dispatch
  from scanned as s
  join waybill.subscription as b on b.event = s.type
  where s.kind = 'event'
    and b.queue in (select jsonb_array_elements_text(($1::text)::jsonb))
    and s.created_at > b.since
),
unclaimed as (
  select w.tx, w.seq, w.id, w.queue
  from wanted as w
  left join lateral (
    select i.state from waybill.inbox as i where i.id = w.id and i.queue = w.queue limit 1
  ) as i on true
  where case
    when i.state in ('succeeded', 'failed', 'cancelled') then false
    else waybill.awaits_delivery(w.id, w.queue, w.dispatch, w.tx, w.seq)
  end
)
select
  (select count(*)::integer from scanned) as scanned,
  (select s.tx::text from scanned as s order by s.tx desc, s.seq desc limit 1) as tx,
  (select s.seq::text from scanned as s order by s.tx desc, s.seq desc limit 1) as seq,
  null::text as id,
  null::text as queue
union all
(
  select null, u.tx::text, u.seq::text, u.id::text, u.queue
  from unclaimed as u
  order by u.tx, u.seq
)
