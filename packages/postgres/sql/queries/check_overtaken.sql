-- Whether a job of a queue that was published after a snapshot has been claimed: the queue hands out what
-- came first first, so that what was published before has left it. Of messages with a priority that is
-- true of those of one priority only, so others are no witnesses. The first 2,000 rows after the snapshot
-- are looked at.
--
-- $1 queue, $2 snapshot
--
-- Plan: outbox_tx_seq_idx from the snapshot on, inbox_pkey a row. Caller: the relay's auditor.
select exists (
  select
  from (
    select o.id, o.kind, o.queue, o.type, o.dispatch, o.priority
    from waybill.outbox as o
    where o.tx >= pg_snapshot_xmax($2::pg_snapshot)
    order by o.tx, o.seq
    limit 2000
  ) as o
  cross join lateral (
    select
    from waybill.inbox as i
    where i.id = o.id and i.queue = $1::text and i.dispatch >= o.dispatch and i.started_at is not null
    limit 1
  ) as i
  where o.priority is null
    and (
      (o.kind = 'job' and o.queue = $1::text)
      or (
        o.kind = 'event'
        and exists (select from waybill.subscription as b where b.queue = $1::text and b.event = o.type)
      )
    )
) as overtaken
