/**
 * Plans of the relay's statements, on empty and on full tables: prepared while a partition is empty,
 * they must not keep a sequential scan all day.
 */

import { type QueryName, statementsFor } from "@waybill/postgres";
import type { ClientBase } from "pg";
import { expect, test } from "vitest";

import { enqueue, startHouse } from "./support.ts";

const calls: Readonly<Partial<Record<QueryName, string>>> = {
  read_window: "'100:200:100,150', 1000, 8000000",
  read_fresh_window: "'100:200:', 1000, 8000000",
  read_late_page: "'{100,150}', '100', 5, 1000, 8000000",
  read_fresh_page: "'100:99999:', '200', -1, 1000, 8000000",
  read_keyed_page: "'100:200:', '100:99999999:', 0, 100, 1000, 8000000",
  fire_timers: "100",
  next_timer: "",
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
    `select waybill.create_outbox_partition('outbox_today', date_trunc('day', now(), 'UTC'), date_trunc('day', now() + interval '1 day', 'UTC'), 10)`,
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
