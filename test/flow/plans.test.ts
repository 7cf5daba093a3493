/**
 * What the statements of governed queues read of a long backlog, with plans that were made while it was empty: a relay
 * and a worker prepare them once and keep them for as long as they live.
 */

import { type QueryName, statementsFor } from "@waybill/postgres";
import type { ClientBase } from "pg";
import { expect, test } from "vitest";
import { createMigratedDatabase } from "../support/index.ts";
import { explained, rowsRead } from "../support/plan.ts";

const waiting = 200_000;
const lanes = 100;
const slots = 1_000;
const batch = 100;

const parameters: Readonly<Partial<Record<QueryName, string>>> = {
  read_lanes: "text",
  read_lane: "text",
  dispatch_round: "text, text, text, text, text, text",
  complete_jobs: "text",
};

/** Rows of the backlog, the slots and the inbox that one run of a prepared statement looked at. */
async function run(client: ClientBase, name: QueryName, values: readonly string[]) {
  const list = values.map((value) => client.escapeLiteral(value)).join(", ");
  return rowsRead(await explained(client, `execute "${name}"(${list})`), /^(backlog|slot|inbox)/);
}

async function fill(client: ClientBase): Promise<void> {
  await client.query(
    `insert into waybill.backlog (id, queue, place, key, type, enqueued_at)
     select waybill.new_id(), 'work', n, 'k' || n % $2::integer, 't', now()
     from generate_series(1, $1::integer) as n`,
    [waiting, lanes],
  );
  await client.query(
    `insert into waybill.slot (id, queue, place, key, type, priority, dispatch, enqueued_at)
     select waybill.new_id(), 'work', n, 'k' || n % $2::integer, 't', 0, 1, now()
     from generate_series(1, $1::integer) as n`,
    [slots, lanes],
  );
  await client.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, started_at)
     select s.id, s.queue, s.type, 'running', 1, 1, now() from waybill.slot as s`,
  );
}

test("with 200,000 jobs in the backlog, a round, a read of a lane, a takeover and the end of jobs read what they are about", async () => {
  await using database = await createMigratedDatabase();
  const client = await database.pool.connect();
  try {
    await client.query("set plan_cache_mode = force_generic_plan");
    await client.query("set jit = off");
    const statements = statementsFor();
    for (const [name, types] of Object.entries(parameters)) {
      const { text } = statements[name as QueryName];
      await client.query(`prepare "${name}" (${types}) as ${text}`);
    }
    const { rows: found } = await client.query<{ epoch: string; revision: string }>(
      "select r.epoch::text, f.revision::text from waybill.relay as r, waybill.flow as f",
    );
    const { epoch = "", revision = "" } = found[0] ?? {};
    // Each has made its plan while there was nothing.
    await run(client, "dispatch_round", [epoch, revision, "[]", "[]", "[]", "[]"]);
    await run(client, "complete_jobs", ["[]"]);
    await fill(client);

    const { rows: heads } = await client.query<{ i: string; q: string }>(
      "select id as i, queue as q from waybill.backlog order by place limit $1",
      [batch],
    );
    const { rows: running } = await client.query(
      "select id, queue, token::text, true as slotted, false as leased, 5 as ran from waybill.inbox limit $1",
      [batch],
    );
    const lane = { queue: "work", lane: "0/t/k1", after: 1_000, rows: 500 };
    const round = [epoch, revision, "[]", JSON.stringify(heads), "[]", "[]"];
    const read = {
      takeover: await run(client, "read_lanes", ["20"]),
      lane: await run(client, "read_lane", [JSON.stringify([lane])]),
      round: await run(client, "dispatch_round", round),
      ends: await run(client, "complete_jobs", [JSON.stringify(running)]),
    };

    const left = await client.query("select from waybill.backlog");
    expect(left.rowCount).toBe(waiting - batch);
    expect((await client.query("select from waybill.slot")).rowCount).toBe(slots);
    expect(read.takeover).toBeLessThan(lanes * 30);
    expect(read.lane).toBe(500);
    expect(read.round).toBeLessThan(batch * 40);
    expect(read.ends).toBeLessThan(batch * 20);
  } finally {
    client.release(true);
  }
});
