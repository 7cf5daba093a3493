/**
 * The ledger: what was committed, what had an effect and what was published, in tables without a
 * unique key; and the questions to it, each of which has no row where all is well.
 */

import type { TestDatabase } from "../../support/index.ts";

/** Makes the ledger's tables, and accounts with a counter for each ordering key. */
export async function createLedger(database: TestDatabase, keys: number): Promise<void> {
  for (const statement of [
    "create table business (job_id uuid not null, kind text not null, key text, key_seq int)",
    "create table effect (job_id uuid not null, kind text not null, attempt int not null)",
    "create table published (n int not null, job_id uuid not null)",
    "create table account (key text primary key, seq int not null)",
    `insert into account select 'key-' || n, 0 from generate_series(1, ${keys}) as n`,
  ]) {
    await database.rows(statement);
  }
}

/** Counts of what is on its way; all zero once the line is drained. */
export const onTheWay = `
  select (select count(*)::int from business as b where not exists (
      select from waybill.inbox as i where i.id = b.job_id and i.state in ('succeeded', 'failed', 'cancelled'))) as unfinished,
    (select count(*)::int from waybill.timer) as timers,
    (select count(*)::int from waybill.outbox as o, waybill.relay as r
      where not coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false)) as unpublished`;

/** Faults by name, each a query of the jobs that have it. */
export const faults: Readonly<Record<string, string>> = {
  "committed without an end": `
    select job_id from business where job_id not in (
      select id from waybill.inbox where state in ('succeeded', 'failed', 'cancelled'))`,
  "ended in another way than its payload says": `
    select i.id, b.kind, i.state from waybill.inbox as i join business as b on b.job_id = i.id
    where i.state <> case b.kind when 'doomed' then 'failed' else 'succeeded' end`,
  "ghost: known to the line, never committed": `
    select id from waybill.inbox where id not in (select job_id from business)
    union all select id from waybill.outbox where id not in (select job_id from business)
    union all select id from waybill.failure where id not in (select job_id from business)
    union all select job_id from effect where job_id not in (select job_id from business)
    union all select job_id from published where job_id not in (select job_id from business)`,
  "lost: committed, without its effect": `
    select job_id from business where kind <> 'doomed' and job_id not in (select job_id from effect)`,
  "doubled effect of a transactional job": `
    select job_id from effect where kind = 'effect' group by job_id having count(*) > 1`,
  "effect of a job that was dead-lettered": `
    select job_id from effect where kind = 'doomed'`,
  "committed without being published": `
    select job_id from business where job_id not in (select job_id from published)`,
  "more attempts than its limit": `
    select id, attempt from waybill.inbox where attempt > 6
    union all select id, attempt from waybill.failure where attempt > 6`,
  "an attempt that failed twice": `
    select id, attempt::text from waybill.failure group by id, attempt having count(*) > 1`,
  "a dead letter too many or too few": `
    select b.job_id from business as b left join waybill.dead_letter as d on d.id = b.job_id
    group by b.job_id, b.kind having count(d.id) <> case b.kind when 'doomed' then 1 else 0 end`,
  "published before an earlier job of its key": `
    with first as (select job_id, min(n) as n from published group by job_id),
    placed as (select b.job_id, first.n, lag(first.n) over (partition by b.key order by b.key_seq) as earlier
      from business as b join first using (job_id) where b.key is not null)
    select job_id from placed where n < earlier`,
  "a timer whose job has ended": `
    select t.id from waybill.timer as t join waybill.inbox as i on i.id = t.id
    where i.state in ('succeeded', 'failed', 'cancelled')`,
};

/** The faults that were found, with up to five jobs each; an empty object where there are none. */
export async function faultsIn(database: TestDatabase): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {};
  for (const [name, query] of Object.entries(faults)) {
    const rows = await database.rows(query);
    if (rows.length > 0) found[`${rows.length} x ${name}`] = rows.slice(0, 5);
  }
  return found;
}
