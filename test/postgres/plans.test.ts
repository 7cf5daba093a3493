import { newJobId } from "@waybill/core";
import { statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { explained, type PlanNode, rowsRead } from "../support/plan.ts";
import { type Application, startApplication } from "./application.ts";

const jobsMany = 100_000;
const statements = statementsFor();

/** 100,000 jobs in day partitions, four fifths of them ended, a sixteenth of them failed. */
async function seed({ pool }: Application): Promise<void> {
  await pool.query(
    `
    create table waybill.outbox_old partition of waybill.outbox for values from ('2026-01-01') to ('2026-01-02');
    create table waybill.outbox_new partition of waybill.outbox for values from ('2026-01-02') to ('2026-01-03');
    create table waybill.inbox_old partition of waybill.inbox
      for values from (waybill.id_at('2026-01-01')) to (waybill.id_at('2026-01-02'));
    create table waybill.inbox_new partition of waybill.inbox
      for values from (waybill.id_at('2026-01-02')) to (waybill.id_at('2026-01-03'));
  `.replaceAll(/waybill\.id_at\('([^']+)'\)/g, (_, day: string) => `('${idAt(day)}')`),
  );
  await pool.query(
    `insert into waybill.outbox (id, queue, type, payload, enqueued_at, created_at)
     select (substr(waybill.id_at(i.at)::text, 1, 24) || lpad(to_hex(i.n), 12, '0'))::uuid,
       'q' || i.n % 10, 'test.' || i.n % 3, '{}', i.at, i.at
     from (select n, timestamptz '2026-01-01 00:00+00' + n * interval '1.7 s' as at from generate_series(1, $1::int) as n) as i`,
    [jobsMany],
  );
  await pool.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, finished_at)
     select o.id, o.queue, o.type, case when right(o.id::text, 1) = '0' then 'failed' else 'succeeded' end, 1, 1, now()
     from waybill.outbox as o order by o.id limit $1`,
    [(jobsMany * 4) / 5],
  );
  await pool.query(
    `insert into waybill.failure (id, queue, type, attempt, token, failure_class, message, fingerprint, terminal)
     select id, queue, type, 1, 1, 'unknown', 'no', 'f' || right(queue, 1), true from waybill.inbox where state = 'failed'`,
  );
  await pool.query(
    `insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, enqueued_at, died_at)
     select id, queue, type, 1, 'unknown', 'no', 'f' || right(queue, 1), '{}', now(), now() - random() * interval '1 day'
     from waybill.inbox where state = 'failed'`,
  );
  await pool.query(
    `insert into waybill.timer (id, queue, fire_at, reason, type, payload)
     select waybill.new_id(), 'q0', now() + interval '1 day', 'delay', 'test.0', '{}' from generate_series(1, 5000)`,
  );
  await pool.query(
    "analyze waybill.outbox, waybill.inbox, waybill.timer, waybill.failure, waybill.dead_letter",
  );
}

/** The bound literal of a day: the first 48 bits of a UUIDv7. */
const idAt = (day: string): string => {
  const hex = Date.parse(`${day}T00:00:00Z`).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
};

const scanned = (nodes: readonly PlanNode[]): string[] =>
  nodes
    .filter((node) => node["Node Type"] === "Seq Scan")
    .map((node) => node["Relation Name"] ?? "")
    .filter((table) => /^(outbox_|inbox_|timer|failure|dead_letter|audit_log|result)/.test(table))
    // Empty tables: a scan of nothing is no fault.
    .filter((table) => !["outbox_default", "inbox_default", "audit_log", "result"].includes(table));

const last = ["ffffffff-ffff-ffff-ffff-ffffffffffff", "~"] as const;

test("with 100,000 jobs, looking at a page reads a page, and no big table is scanned", async () => {
  await using app = await startApplication();
  await seed(app);
  const [someone] = await app.db.rows<{ id: string; queue: string }>(
    "select id, queue from waybill.inbox where state = 'failed' order by id limit 1",
  );
  const { id, queue } = someone ?? { id: "", queue: "" };
  const some = await app.db.rows<{ id: string }>(
    "select id from waybill.outbox where right(id::text, 3) = '0ff' limit 20",
  );

  const cases: readonly (readonly [keyof typeof statements, readonly string[], number])[] = [
    ["get_jobs", [id, ""], 50],
    ["get_jobs", [id, queue], 50],
    ["list_jobs", [...last, "50", "50", "", "", "", ""], 2_000],
    ["list_jobs", [id, queue, "50", "50", "", "", "", ""], 2_000],
    ["list_jobs", [...last, "10000", "50", "failed", "q2", "", ""], 60_000],
    ["list_dead_letters", ["", "", "", "", "infinity", ...last, "50"], 200],
    ["list_dead_letters", ["q2", "", "", "f2", "infinity", ...last, "50"], 1_000],
    ["read_watched", [JSON.stringify([id])], 50],
    ["read_watched", [JSON.stringify(some.map((one) => one.id))], 2_000],
    ["watch_jobs", [newJobId(), JSON.stringify(some.map((one) => one.id))], 50],
    ["tell_watchers", [JSON.stringify([id])], 50],
    ["cancel_job", [id, queue, "a", ""], 50],
    ["release_job", [id, "", "a", ""], 50],
    ["retry_job", [id, queue, "a", ""], 50],
    // It counts unread rows before the job, 10,000 at most.
    ["explain_job", [id, queue], 10_100],
    ["list_blocked_keys", ["", "100"], 100],
    ["edit_job", [id, queue, "{}", "1", "a", ""], 50],
    ["reprioritise_job", [id, queue, "5", "a", ""], 50],
    ["delay_job", [id, queue, "", "5", "a", ""], 50],
  ];
  for (const [name, values, rowsMax] of cases) {
    const nodes = await explained(app.db.pool, statements[name].text, values);

    expect(scanned(nodes), name).toEqual([]);
    expect(rowsRead(nodes), name).toBeLessThanOrEqual(rowsMax);
  }
});

test("with 100,000 jobs, filters and counts find what they should", async () => {
  await using app = await startApplication();
  await seed(app);

  const { total, queues } = await app.jobs.counts();
  const failed = await app.jobs.list({ state: "failed", limit: 200 });
  const running = await app.jobs.list({ state: "running" });

  expect(total).toMatchObject({ queued: jobsMany / 5 + 5_000, running: 0 });
  expect(total.succeeded + total.failed).toBe((jobsMany * 4) / 5);
  expect(Object.keys(queues)).toHaveLength(10);
  expect(failed.jobs).toHaveLength(200);
  expect(failed.jobs.every((job) => job.state === "failed")).toBe(true);
  // 100,000 are looked at; 5,000 delayed ones came first, so there is more to see.
  expect(running.jobs).toEqual([]);
  expect(running.nextCursor).not.toBeNull();
});
