/**
 * The books of the matrix: what was committed, what had an effect, and what must not be left. The tables
 * have no unique key, so that doubles can be counted.
 */

import { expect } from "vitest";
import type { App } from "../../worker/support/start-app.ts";

/** Makes the table of what was committed; that of the effects is the app's. */
export async function createLedger({ database }: App): Promise<void> {
  await database.rows(
    "create table committed (job_id uuid not null, type text not null, ordering_key text, n serial not null)",
  );
}

/** Each question has no row where all is well. */
const faults: Readonly<Record<string, string>> = {
  "without its end": `
    select c.job_id, c.type, i.state from committed as c left join waybill.inbox as i on i.id = c.job_id
    where c.type <> 'route'
      and i.state is distinct from case c.type when 'doomed' then 'failed' else 'succeeded' end`,
  "ghost: known to the line, never committed": `
    select id from waybill.inbox where id not in (select job_id from committed)
    union all select id from waybill.outbox where id not in (select job_id from committed)
    union all select job_id from effect where job_id not in (select job_id from committed)`,
  "lost or doubled effect": `
    select c.job_id, c.type, count(e.job_id) from committed as c left join effect as e using (job_id)
    group by c.job_id, c.type
    having case c.type
      when 'doomed' then count(e.job_id) <> 0
      when 'route' then count(e.job_id) <> 0
      when 'plain' then count(e.job_id) = 0
      else count(e.job_id) <> 1
    end`,
  "more attempts than its limit": "select id, attempt from waybill.inbox where attempt > 6",
  "a dead letter too many or too few": `
    select c.job_id from committed as c left join waybill.dead_letter as d on d.id = c.job_id
    group by c.job_id, c.type having count(d.id) <> case c.type when 'doomed' then 1 else 0 end`,
  "an effect before that of an earlier job of its key": `
    select a.job_id from committed as a join effect as ea on ea.job_id = a.job_id
    join committed as b on b.ordering_key = a.ordering_key and b.n < a.n
    join effect as eb on eb.job_id = b.job_id where eb.at > ea.at`,
};

/** The faults that were found, with up to five jobs each; an empty object where the books balance. */
export async function faultsIn({ database }: App): Promise<Readonly<Record<string, unknown[]>>> {
  const found: Record<string, unknown[]> = {};
  for (const [name, question] of Object.entries(faults)) {
    const rows = await database.rows(question);
    if (rows.length > 0) found[`${rows.length} x ${name}`] = rows.slice(0, 5);
  }
  return found;
}

/** Fails while anything is on its way, or was left behind where something was on its way. */
export async function expectNothingLeft({ database }: App): Promise<void> {
  const [left] = await database.rows(
    `select (select count(*)::int from committed as c where c.type <> 'route' and not exists (
        select from waybill.inbox as i
        where i.id = c.job_id and i.state in ('succeeded', 'failed', 'cancelled'))) as unfinished,
      (select count(*)::int from waybill.outbox as o, waybill.relay as r
        where not coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false)) as unpublished,
      (select count(*)::int from waybill.timer) as timers,
      (select count(*)::int from waybill.slot) as slots,
      (select count(*)::int from waybill.backlog) as backlog,
      (select count(*)::int from waybill.freed) as news`,
  );
  expect(left).toEqual({
    unfinished: 0,
    unpublished: 0,
    timers: 0,
    slots: 0,
    backlog: 0,
    news: 0,
  });
}
