/** The questions to the ledger, each of which has no row where all is well. */

import { maxAttempts } from "./jobs.ts";

/** What an answer is counted as. */
export type Fault = "lost" | "doubled" | "ghosts" | "broken";

/** A question, whose rows are the offending jobs. */
export interface Question {
  readonly what: string;
  readonly fault: Fault;
  readonly sql: string;
}

const isEnd = (state: string): string => `${state} in ('succeeded', 'failed', 'cancelled')`;

const isBusiness = (id: string): string =>
  `exists (select from business as b where b.job_id = ${id})`;

/** Where ids of jobs are. */
const places: readonly (readonly [table: string, id: string])[] = [
  ["waybill.inbox", "id"],
  ["waybill.outbox", "id"],
  ["waybill.timer", "id"],
  ["waybill.slot", "id"],
  ["waybill.backlog", "id"],
  ["waybill.failure", "id"],
  ["waybill.dead_letter", "id"],
  ["waybill.result", "id"],
  ["waybill.checkpoint", "id"],
  ["waybill.progress", "id"],
  ["effect", "job_id"],
  ["called", "job_id"],
];

/** Tables that are empty when there is nothing to do, with a column to tell the row by. */
const emptied: readonly (readonly [table: string, column: string])[] = [
  ["timer", "id"],
  ["slot", "id"],
  ["backlog", "id"],
  ["waiting", "queue"],
  ["freed", "queue"],
  ["watch", "id"],
  ["idempotency_key", "job_id"],
  ["checkpoint", "id"],
  ["progress", "id"],
];

/** All of them, once the line is drained. */
export const questions: readonly Question[] = [
  {
    what: "committed, but not in the database",
    fault: "lost",
    sql: `select i.job_id from intent as i join batch using (batch)
          where outcome = 'committed' and not ${isBusiness("i.job_id")}`,
  },
  {
    what: "in the database without the rest of its transaction",
    fault: "lost",
    sql: `select i.job_id from intent as i
          where not ${isBusiness("i.job_id")}
            and exists (select from intent as j where j.batch = i.batch and ${isBusiness("j.job_id")})`,
  },
  {
    what: "committed without an end",
    fault: "lost",
    sql: `select b.job_id, b.queue from business as b
          where not exists (
            select from waybill.inbox as i
            where i.id = b.job_id and i.queue = b.queue and ${isEnd("i.state")})`,
  },
  {
    what: "succeeded without its effect",
    fault: "lost",
    sql: `select b.job_id, b.queue from business as b
          where b.kind not in ('call', 'doomed')
            and not exists (select from effect as e where e.job_id = b.job_id and e.queue = b.queue)`,
  },
  {
    what: "a plain job without its effect",
    fault: "lost",
    sql: `select b.job_id, b.queue from business as b
          where b.kind = 'call' and not exists (select from called as c where c.job_id = b.job_id)`,
  },
  {
    what: "an effect that is there more than once",
    fault: "doubled",
    sql: "select job_id, queue from effect group by job_id, queue having count(*) > 1",
  },
  {
    what: "an effect of a job that was dead-lettered",
    fault: "doubled",
    sql: "select e.job_id, e.queue from effect as e join business using (job_id, queue) where kind = 'doomed'",
  },
  {
    what: "ended more than once",
    fault: "doubled",
    sql: `select job_id, queue from ended where ${isEnd("state")} group by job_id, queue having count(*) > 1`,
  },
  {
    what: "left its end again",
    fault: "doubled",
    sql: `select job_id, queue from ended where ${isEnd("before")}`,
  },
  {
    what: "rolled back, but in the database",
    fault: "ghosts",
    sql: `select i.job_id from intent as i join batch using (batch)
          where outcome = 'rolled_back' and ${isBusiness("i.job_id")}`,
  },
  ...places.map(([table, id]): Question => ({
    what: `in ${table}, but never committed`,
    fault: "ghosts",
    sql: `select t.${id} as job_id from ${table} as t where not ${isBusiness(`t.${id}`)}`,
  })),
  {
    what: "ended in another way than its kind does",
    fault: "broken",
    sql: `select b.job_id, b.queue from business as b
          join waybill.inbox as i on i.id = b.job_id and i.queue = b.queue
          where ${isEnd("i.state")} and i.state <> case b.kind when 'doomed' then 'failed' else 'succeeded' end`,
  },
  {
    what: "more attempts than its limit",
    fault: "broken",
    sql: `select id as job_id, queue from waybill.inbox where attempt > ${maxAttempts}
          union all select id, queue from waybill.failure where attempt > ${maxAttempts}`,
  },
  {
    what: "an attempt that failed twice",
    fault: "broken",
    sql: `select id as job_id, queue from waybill.failure
          group by id, queue, attempt having count(*) > 1`,
  },
  {
    what: "a dead letter too many or too few",
    fault: "broken",
    sql: `select b.job_id, b.queue from business as b
          left join waybill.dead_letter as d on d.id = b.job_id and d.queue = b.queue
          group by b.job_id, b.queue, b.kind
          having count(d.id) <> case b.kind when 'doomed' then 1 else 0 end`,
  },
  ...emptied.map(([table, column]): Question => ({
    what: `a row in waybill.${table} that nothing needs any more`,
    fault: "broken",
    sql: `select t.${column} as job_id from waybill.${table} as t`,
  })),
  {
    what: "a share of a worker that is no more",
    fault: "broken",
    sql: `select q.worker as job_id, q.queue from waybill.worker_queue as q
          where not exists (select from waybill.worker as w where w.id = q.worker)`,
  },
];
