-- Claims a batch of deliveries: one row back for each, which says what to do with it (see
-- packages/worker/src/verdict.ts). All is decided here, by the row that is there: nothing outside
-- this statement looks first and acts later.
--
-- $1 JSON array of {id, queue, type, dispatch, death, enqueued_at, expires_at, on_terminal, origin}; no
--    (id, queue) twice; origin null: not to be looked at
-- $2 the worker's boot id
--
-- No row comes back for an orphan: a message that this database has published in an earlier life, and whose
-- job it does not know any more. Only messages of an earlier life cost that look.
-- The update has no where clause, so that a row comes back for each other delivery. "excluded" carries
-- what the inbox has no column for: its state is cancelled where the message has expired, its
-- deaths is the marker of the death that the message is the dead letter of.
-- After its expiry a job is not started, and not started again after a failure. One that was
-- interrupted goes on: it was running when its worker died, or was handed back and has no owner.
-- Rows are taken in the order of their ids, so that two workers with copies of the same jobs wait
-- for each other instead of deadlocking.
-- Plan: inbox_pkey of one partition a row. Caller: the worker's claims.
with here as materialized (
  select waybill.origin() as origin
),
delivery as materialized (
  select
    d.id, d.queue, d.type, d.dispatch, d.death, d.enqueued_at, d.on_terminal,
    coalesce(d.expires_at <= clock_timestamp(), false) as expired
  from jsonb_to_recordset($1::jsonb) as d (
    id uuid, queue text, type text, dispatch integer, death integer,
    enqueued_at timestamptz, expires_at timestamptz, on_terminal text, origin text
  )
  cross join here as h
  where case
    when d.origin is null or d.origin = h.origin then true
    else not waybill.is_orphan(d.origin, d.id, d.queue, d.enqueued_at)
  end
),
claimed as (
  insert into waybill.inbox as i (
    id, queue, type, state, attempt, dispatch, deaths, owner, enqueued_at, started_at, finished_at, on_terminal
  )
  select
    d.id,
    d.queue,
    d.type,
    case when d.expired then 'cancelled' else 'running' end,
    case when d.expired then 0 else 1 end,
    d.dispatch,
    d.death,
    $2::uuid,
    d.enqueued_at,
    case when not d.expired then clock_timestamp() end,
    case when d.expired then clock_timestamp() end,
    d.on_terminal
  from delivery as d
  order by d.id, d.queue
  on conflict (id, queue) do update
  set on_terminal = coalesce(i.on_terminal, excluded.on_terminal),
      (state, attempt, crashes, dispatch, token, owner, started_at, finished_at) = (
    select
      case when v.runs then 'running' when v.step = 'cancel' then 'cancelled' else i.state end,
      case v.step when 'redrive' then 1 when 'retry' then i.attempt + 1 else i.attempt end,
      case v.step when 'redrive' then 0 when 'takeover' then i.crashes + 1 else i.crashes end,
      case when v.runs then greatest(i.dispatch, excluded.dispatch) else i.dispatch end,
      case when v.step = 'keep' then i.token else i.token + 1 end,
      case when v.runs then excluded.owner else i.owner end,
      case when v.runs then clock_timestamp() else i.started_at end,
      case when v.runs then null when v.step = 'cancel' then clock_timestamp() else i.finished_at end
    from (
      select s.step, s.step in ('again', 'takeover', 'retry', 'redrive') as runs
      from (
        select
          case
            when i.state in ('succeeded', 'cancelled') then 'keep'
            when i.state = 'failed' then
              case when excluded.deaths > 0 and excluded.deaths = i.deaths then 'redrive' else 'keep' end
            -- A worker never sends what it runs: the answer to its earlier claim was lost.
            when i.state = 'running' and i.owner = excluded.owner then 'again'
            when i.state = 'running' and waybill.worker_alive(i.owner) then 'keep'
            when i.cancel_requested_at is not null then 'cancel'
            when i.state = 'running' then 'takeover'
            -- Before its expiry is looked at: of a redriven job, which has none, a first copy may turn up.
            when excluded.dispatch <= i.dispatch then 'keep'
            when excluded.state = 'cancelled' and i.owner is not null then 'cancel'
            else 'retry'
          end as step
        -- Keeps the planner from copying the expression, which has to be decided once.
        offset 0
      ) as s
      offset 0
    ) as v
  )
  returning
    i.id, i.queue, i.state, i.attempt, i.crashes, i.dispatch, i.deaths, i.token, i.owner,
    i.finished_at >= statement_timestamp() as ended
),
-- Messages that an operator moved back from a dead-letter queue, once each. Seldom any: the limit
-- keeps the planner from starting at the claimed rows, which would compare each with each.
moved as materialized (
  select d.id, d.queue, d.death
  from delivery as d
  where d.death > 0
),
redriven as (
  select m.id, m.queue, 'death ' || m.death as detail
  from moved as m
  cross join lateral (
    select
    from claimed as c
    where c.id = m.id
      and c.queue = m.queue
      and c.state = 'running'
      and c.owner = $2::uuid
      and c.attempt = 1
      and c.crashes = 0
      and c.deaths = m.death
    limit 1
  ) as run
  where not exists (
    select
    from waybill.audit_log as a
    where a.id = m.id and a.queue = m.queue and a.action = 'redrive' and a.detail = 'death ' || m.death
  )
),
logged as (
  insert into waybill.audit_log (actor, action, id, queue, detail)
  select 'broker', 'redrive', r.id, r.queue, r.detail
  from redriven as r
),
closed as (
  delete from waybill.dead_letter as l
  using redriven as r
  where l.id = r.id and l.queue = r.queue
)
select
  c.id::text as id,
  c.queue,
  c.state,
  c.attempt,
  c.crashes,
  c.dispatch,
  c.deaths,
  c.token::text as token,
  c.owner::text as owner,
  coalesce(c.ended, false) as ended
from claimed as c
