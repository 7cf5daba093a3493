/**
 * Plans of the relay's statements, on empty and on full tables: prepared while a partition is empty,
 * they must not keep a sequential scan all day.
 */

import { type QueryName, statementsFor } from "@waybill/postgres";
import type { ClientBase } from "pg";
import { expect, test } from "vitest";

import { explained, type PlanNode } from "../support/plan.ts";
import { enqueue, startHouse } from "./support.ts";

const calls: Readonly<Partial<Record<QueryName, string>>> = {
  read_window: "'100:200:100,150', 1000, 8000000",
  read_fresh_window: "'100:200:', 1000, 8000000",
  read_late_page: "'{100,150}', '100', 5, 1000, 8000000",
  read_fresh_page: "'100:99999:', '200', -1, 1000, 8000000",
  read_keyed_page: "'100:200:', '100:99999999:', 0, 100, 1000, 8000000",
  fire_timers: "100",
  next_timer: "",
  fire_leases: "1000, '[]'",
  read_unclaimed: `'["email"]', '100:200:100,150', '100:99999999:', '0', -1, 2000`,
  check_overtaken: "'email', '100:200:'",
  dispatch_lost: `1, '[{"i": "01900000-0000-7000-8000-000000000001", "q": "email"}]', 'lost'`,
  park_dispatches: `1, '[{"tx":"1","seq":1}]'`,
  save_cursor: "1, '1:1:', null, false, null, null, null, null",
};

const settings = [
  "enable_seqscan = off",
  "enable_hashjoin = off",
  "enable_mergejoin = off",
  "jit = off",
  "plan_cache_mode = force_generic_plan",
];

async function scansOf(client: ClientBase, name: QueryName, values: string): Promise<string[]> {
  const plan = await client.query<{ "QUERY PLAN": string }>(
    `explain (costs off) execute "${name}"${values === "" ? "" : `(${values})`}`,
  );
  return plan.rows
    .map((row) => row["QUERY PLAN"])
    .filter((line) => /Seq Scan on (outbox|timer|inbox)/.test(line));
}

test("every look at the outbox and the timers uses an index, however empty or full they are", async () => {
  await using house = await startHouse();
  await house.database.rows(
    `select waybill.create_outbox_partition('outbox_20200103', date_trunc('day', now(), 'UTC'), date_trunc('day', now() + interval '1 day', 'UTC'), 10)`,
  );
  const client = await house.database.pool.connect();
  try {
    for (const setting of settings) await client.query(`set ${setting}`);
    const statements = statementsFor();
    const names = Object.keys(calls) as QueryName[];
    for (const name of names) await client.query(`prepare "${name}" as ${statements[name].text}`);

    const found: string[] = [];
    for (const name of names) found.push(...(await scansOf(client, name, calls[name] ?? "")));
    await enqueue(
      client,
      Array.from({ length: 3_000 }, (_, n) => ({
        ...(n % 3 === 0 ? { ordering_key: "k" } : {}),
        ...(n % 5 === 0 ? { delay_ms: 100_000 } : {}),
      })),
    );
    await client.query("analyze waybill.outbox, waybill.timer");
    for (const name of names) found.push(...(await scansOf(client, name, calls[name] ?? "")));

    expect(found).toEqual([]);
  } finally {
    client.release(true);
  }
});

/** Nodes of the plan of a statement that is run. */
const run = (client: ClientBase, name: QueryName, values: readonly unknown[]) =>
  explained(client, statementsFor()[name].text, values);

const readsOfLocks = (nodes: readonly PlanNode[]): number =>
  nodes
    .filter((node) => node["Function Name"] === "pg_lock_status")
    .reduce((sum, node) => sum + (node["Actual Loops"] ?? 0), 0);

test("a look for dead owners reads the locks once for 200 workers with 1,000 leases, and not at all without leases", async () => {
  await using house = await startHouse();
  const client = await house.database.pool.connect();
  try {
    for (const setting of settings) await client.query(`set ${setting}`);
    await client.query(
      `insert into waybill.worker (id, name, host, pid, version, queues, lock_key, lease_until)
       select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'w', 'h', 1, '1', '{}', n * 104729 - 9000000,
         clock_timestamp() + interval '1 hour'
       from generate_series(1, 200) as n`,
    );
    await client.query("select pg_advisory_lock(lock_key) from waybill.worker");
    const idle = await run(client, "fire_leases", [1_000, "[]"]);
    await client.query(
      `insert into waybill.timer (id, queue, dispatch, fire_at, reason, owner, type, payload)
       select waybill.new_id(), 'email', 2, 'infinity', 'lease', w.id, 't', '{}'
       from waybill.worker as w, generate_series(1, 5)`,
    );
    await client.query("analyze waybill.timer, waybill.worker");

    const busy = await run(client, "fire_leases", [1_000, "[]"]);

    const left = await client.query("select from waybill.timer where reason = 'lease'");
    expect(left.rowCount).toBe(1_000);
    expect(readsOfLocks(idle)).toBe(0);
    expect(readsOfLocks(busy)).toBe(1);
  } finally {
    client.release(true);
  }
});

test("the sweep of dead owners looks up each running job, and reads no table as a whole but the inbox", async () => {
  await using house = await startHouse();
  const client = await house.database.pool.connect();
  try {
    // As a connection for long work has it: the planner is free.
    await client.query("set jit = off");
    await enqueue(
      client,
      Array.from({ length: 5_000 }, () => ({ payload: "x".repeat(200) })),
    );
    await client.query(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, started_at)
       select o.id, o.queue, o.type, case when o.seq % 20 = 0 then 'running' else 'succeeded' end, 1, 1, now() - interval '1 hour'
       from waybill.outbox as o`,
    );
    await client.query(
      `insert into waybill.timer (id, queue, fire_at, reason, type, payload)
       select waybill.new_id(), 'email', 'infinity', 'delay', 't', '{}' from generate_series(1, 5000)`,
    );
    await client.query("analyze");

    const nodes = await run(client, "redispatch_orphans", [null, 1_000]);

    const scanned = nodes
      .filter((node) => node["Node Type"] === "Seq Scan")
      .map((node) => node["Relation Name"] ?? "")
      .filter((table) => /^(outbox|timer|dead_letter)/.test(table));
    // An empty table is read as soon as its index.
    expect(scanned.filter((table) => table !== "dead_letter")).toEqual([]);
    const again = await client.query("select from waybill.outbox where dispatch = 2");
    expect(again.rowCount).toBe(250);
  } finally {
    client.release(true);
  }
});
