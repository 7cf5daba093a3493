/** Positions that the server cannot honour (A07): a loud rescan, never a start "from now". */

import { migrate } from "@waybill/postgres";
import { expect, test } from "vitest";

import { createTestDatabase, eventually, type TestDatabase } from "../support/index.ts";
import { enqueue, type House, isDrained, startHouse } from "./support.ts";

const rescansOf = async (house: House): Promise<readonly string[]> =>
  (
    await house.database.rows<{ detail: string }>(
      "select detail from waybill.audit_log where action = 'rescan' order by audit_id",
    )
  ).map(({ detail }) => detail);

/** Ends a job as its worker would. */
const succeed = async (house: House, id: string | undefined): Promise<void> => {
  await house.database.rows(
    "insert into waybill.inbox (id, queue, type, state, dispatch, finished_at) values ($1, 'email', 't', 'succeeded', 1, clock_timestamp())",
    [id],
  );
};

test("a fresh database is read from the beginning, without a rescan", async () => {
  await using house = await startHouse();
  const ids = await enqueue(house.database.pool, [{}, {}]);

  house.startRelay();

  await eventually(() => isDrained(house));
  const collected = await house.collect("email");
  await eventually(() => collected.ids.length === ids.length);
  expect(await rescansOf(house)).toEqual([]);
});

test("A07: a deleted position leads to a rescan of everything unfinished, and nothing is lost", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const first = house.startRelay();
  const [ended, waiting] = await enqueue(house.database.pool, [{}, {}]);
  await eventually(() => isDrained(house));
  await first.stop();
  await succeed(house, ended);
  await house.database.rows("delete from waybill.relay");
  const [fresh] = await enqueue(house.database.pool, [{}]);

  house.startRelay();

  await eventually(() => isDrained(house));
  await eventually(() => collected.messages.length === 4);
  expect(new Set(collected.messages.slice(2).map(({ id }) => id))).toEqual(
    new Set([waiting, fresh]),
  );
  expect(await rescansOf(house)).toEqual([expect.stringContaining("deleted")]);
});

test("A07: a position beyond the server's transactions leads to a rescan", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const ids = await enqueue(house.database.pool, [{}, {}]);
  await house.database.rows("update waybill.relay set snapshot = '900000000:900000000:'");

  house.startRelay();

  await eventually(() => collected.ids.length === 2);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  expect(await rescansOf(house)).toEqual([expect.stringContaining("beyond")]);
});

test("A07: a position of another cluster leads to a rescan, events included", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const first = house.startRelay();
  const [id] = await enqueue(house.database.pool, [{}]);
  await eventually(() => isDrained(house));
  await first.stop();
  await house.database.rows("update waybill.relay set system_identifier = '1'");

  house.startRelay();

  await eventually(() => collected.messages.length === 2);
  expect(collected.ids).toEqual([id]);
  expect(await rescansOf(house)).toEqual([expect.stringContaining("another server")]);
});

test("A07: in a database restored from a dump everything unfinished is published, and what had ended is not", async () => {
  await using house = await startHouse();
  await using restored = await createTestDatabase();
  await house.declare("email");
  const first = house.startRelay();
  const [ended, waiting] = await enqueue(house.database.pool, [{}, {}]);
  await eventually(() => isDrained(house));
  await first.stop();
  await succeed(house, ended);
  const late = await enqueue(house.database.pool, [{}, { kind: "event", type: "happened" }]);
  await restore(house, restored);
  const before = await house.collect("email");
  await eventually(() => before.messages.length === 2);

  house.startRelay({ databaseUrl: restored.url });

  await eventually(() => before.messages.length === 4);
  expect(new Set(before.messages.slice(2).map(({ id }) => id))).toEqual(
    new Set([waiting, late[0]]),
  );
  const [log] = await restored.rows("select detail from waybill.audit_log where action = 'rescan'");
  expect(log).toEqual({ detail: expect.stringContaining("dump") as string });
});

/** What a restored dump is: the same rows in tables with other object ids. */
async function restore(house: House, target: TestDatabase): Promise<void> {
  await migrate(target.pool);
  for (const table of ["outbox", "inbox", "timer", "relay"]) {
    const rows = await house.database.rows(`select to_jsonb(t) as row from waybill.${table} as t`);
    await target.rows(`delete from waybill.${table}`);
    await target.rows(
      `insert into waybill.${table} select * from jsonb_populate_recordset(null::waybill.${table}, $1::jsonb)`,
      [JSON.stringify(rows.map(({ row }) => row))],
    );
  }
}
