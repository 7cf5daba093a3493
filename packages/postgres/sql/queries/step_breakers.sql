-- Moves each breaker on, and forgets counts that no breaker needs any more. One row back for each
-- dependency, with its state after that. Without the term: none, and nothing is changed.
--
-- closed: opens when enough of the attempts in its window have failed.
-- open: half open when the next probe is due, unless an operator opened it.
-- half open: opens again, for twice as long, when an attempt has failed that began since; closes when one
-- has succeeded.
--
-- What somebody changes at the same time wins, and is looked at next time. A clock that was set back must
-- not keep a breaker as it is: a change that lies in the future is dated now.
--
-- $1 epoch
--
-- Plan: reads dependency and its few outcomes; relay_pkey. Caller: the relay's breakers.
with term as materialized (
  select r.epoch
  from waybill.relay as r
  where r.shard = 0 and r.epoch = $1::bigint and r.lease_until is not null
),
counted as materialized (
  select d.name, d.settings, d.state, d.manual, d.reason, d.probe_at, d.changed_at,
    coalesce(sum(o.failed), 0) as failed,
    coalesce(sum(o.succeeded + o.failed), 0) as attempts
  from term as t
  cross join waybill.dependency as d
  left join waybill.dependency_outcome as o
    on o.dependency = d.name
    and o.since = d.changed_at
    and (
      d.state <> 'closed'
      or o.second > statement_timestamp() - (d.settings ->> 'windowMs')::double precision * interval '1 millisecond'
    )
  group by d.name
),
decided as materialized (
  select c.name, c.changed_at, c.failed, c.attempts,
    case
      when c.state = 'closed'
        and c.failed > 0
        and c.attempts >= (c.settings ->> 'minimum')::integer
        and c.failed >= (c.settings ->> 'failureRate')::numeric * c.attempts
      then 'open'
      when c.state = 'open' and not c.manual and c.probe_at <= statement_timestamp() then 'half_open'
      when c.state = 'half_open' and c.failed > 0 then 'open'
      when c.state = 'half_open' and c.attempts > 0 then 'closed'
    end as next
  from counted as c
),
moved as (
  update waybill.dependency as d
  set state = coalesce(x.next, d.state),
      reason = case
        when x.next is null then d.reason
        when x.next = 'half_open' then 'a probe is due'
        when x.next = 'closed' then 'a probe succeeded'
        when d.state = 'half_open' then 'a probe failed'
        else format(
          '%s of %s attempts failed within %s s',
          x.failed, x.attempts, trim_scale((d.settings ->> 'windowMs')::numeric / 1000)
        )
      end,
      openings = case x.next when 'open' then d.openings + 1 when 'closed' then 0 else d.openings end,
      probe_at = case
        when x.next = 'open' then statement_timestamp() + interval '1 millisecond' * least(
          (d.settings ->> 'openMaxMs')::double precision,
          (d.settings ->> 'openMs')::double precision * power(2, least(d.openings, 30))
        )
        when x.next is null and d.probe_at is not null then least(
          d.probe_at,
          statement_timestamp() + interval '1 millisecond' * (d.settings ->> 'openMaxMs')::double precision
        )
      end,
      changed_at = statement_timestamp(),
      changed_by = case when x.next is null then d.changed_by else 'waybill' end
  from decided as x
  where d.name = x.name
    and d.changed_at = x.changed_at
    and (x.next is not null or d.changed_at > statement_timestamp())
  returning d.name, d.state, d.reason, d.probe_at, x.next
),
noted as (
  insert into waybill.dependency_event (dependency, state, reason, actor)
  select m.name, m.state, m.reason, 'waybill'
  from moved as m
  where m.next is not null
  order by m.name
),
forgotten as (
  delete from waybill.dependency_outcome as o
  using counted as c
  where o.dependency = c.name
    and (
      o.since <> c.changed_at
      or o.second < statement_timestamp() - (c.settings ->> 'windowMs')::double precision * interval '1 millisecond'
      or o.second > statement_timestamp() + interval '1 minute'
    )
)
select
  c.name,
  coalesce(m.state, c.state) as state,
  case when m.name is null then c.reason else m.reason end as reason,
  (
    extract(epoch from case when m.name is null then c.probe_at else m.probe_at end - statement_timestamp()) * 1000
  )::double precision as "probeMs"
from counted as c
left join moved as m on m.name = c.name
order by c.name
