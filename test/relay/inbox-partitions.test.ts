/** Old partitions of the inbox: what runs for long keeps its row, and ends are told once. */

import { createJobs, createRelayStore, pgDatabase } from "@waybill/postgres";
import { expect, test } from "vitest";

import { eventually } from "../support/index.ts";
import { type House, startHouse } from "./support.ts";

const partitionsOf = async (house: House): Promise<readonly string[]> =>
  (
    await house.database.rows<{ name: string }>(
      "select name from waybill.list_partitions('waybill.inbox'::regclass) order by 1",
    )
  ).map(({ name }) => name);

const oldWeek = `date_trunc('week', now() - interval '60 days', 'UTC')`;

/** An id of the week of the partition that {@link createOldInbox} makes. */
const oldId = async (house: House, n: number): Promise<string> => {
  const [row] = await house.database.rows<{ id: string }>(
    `select left(waybill.id_at(${oldWeek} + interval '1 hour')::text, 24) || lpad($1::text, 12, '0') as id`,
    [n],
  );
  return row?.id ?? "";
};

const createOldInbox = async (house: House): Promise<void> => {
  await house.database.rows(
    `select waybill.create_inbox_partition('inbox_20200101', ${oldWeek}, ${oldWeek} + interval '7 days', 0)`,
  );
};

test("K1: a job that runs for longer than the inbox remembers keeps its row, and its lease still fires when its worker dies", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  await createOldInbox(house);
  const id = await oldId(house, 1);
  const owner = "01890000-0000-7000-8000-0000000000a1";
  await house.database.rows(
    `with worker as (
       insert into waybill.worker (id, name, host, pid, version, queues, lease_until)
       values ($2, 'w', 'h', 1, '1', '{email}', now() + interval '1 day')
     ), lease as (
       insert into waybill.timer (id, queue, dispatch, fire_at, reason, owner, type, payload, enqueued_at)
       values ($1, 'email', 2, 'infinity', 'lease', $2, 't', '"long"', now() - interval '59 days')
     )
     insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner, enqueued_at, started_at)
     values ($1, 'email', 't', 'running', 1, 1, $2, now() - interval '59 days', now() - interval '59 days')`,
    [id, owner],
  );
  house.startRelay();
  await eventually(async () => expect(await partitionsOf(house)).not.toContain("inbox_20200101"));
  expect(await house.database.rows("select id, state, owner from waybill.inbox")).toEqual([
    { id, state: "running", owner },
  ]);

  await house.database.rows("update waybill.worker set lease_until = now()");

  await eventually(() => collected.messages.length > 0);
  expect(collected.messages).toMatchObject([
    { id, body: '"long"', headers: { "waybill-dispatch": 2 } },
  ]);
});

test("the end of a job is told from a partition that the relay has made, and not again when it drops the partition", async () => {
  await using house = await startHouse();
  const insert = async (n: number): Promise<string> => {
    const id = await oldId(house, n);
    await house.database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, on_terminal)
       values ($1, 'email', 't', 'running', 1, 1, 'email.ended')`,
      [id],
    );
    return id;
  };
  // Moved into the partition from the default one, and written into it.
  const moved = await insert(1);
  await house.database.rows(
    `select waybill.create_inbox_partition('inbox_20200101', ${oldWeek}, ${oldWeek} + interval '7 days', 10)`,
  );
  const written = await insert(2);
  const told = async (): Promise<readonly string[]> =>
    (
      await house.database.rows<{ id: string }>(
        "select payload::json ->> 'jobId' as id from waybill.outbox where type = 'email.ended' order by seq",
      )
    ).map(({ id }) => id);

  await house.database.rows(
    "update waybill.inbox set state = 'succeeded', finished_at = now() where id = $1",
    [moved],
  );
  await house.database.rows(
    `insert into waybill.inbox (id, queue, type, state, dispatch, finished_at, on_terminal)
     values ($1, 'email', 't', 'cancelled', 1, now(), 'email.ended')`,
    [await oldId(house, 3)],
  );
  expect(await told()).toEqual([moved, await oldId(house, 3)]);
  await house.database.rows(
    "select waybill.drop_inbox_partition('inbox_20200101', now() - interval '1 day', 100)",
  );

  expect(await partitionsOf(house)).toEqual(["inbox_default"]);
  expect(await told()).toEqual([moved, await oldId(house, 3)]);
  await house.database.rows(
    "update waybill.inbox set state = 'succeeded', finished_at = now() where id = $1",
    [written],
  );
  await house.database.rows(
    `insert into waybill.inbox (id, queue, type, state, dispatch, finished_at, on_terminal)
     values ($1, 'email', 't', 'cancelled', 1, now(), 'email.ended')`,
    [await oldId(house, 4)],
  );
  expect(await told()).toEqual([moved, await oldId(house, 3), written, await oldId(house, 4)]);
});

test("a dead letter can be retried however old it is, although the inbox forgets what has ended", async () => {
  await using house = await startHouse();
  const { database } = house;
  await createOldInbox(house);
  const [dead, ended] = [await oldId(house, 1), await oldId(house, 2)];
  for (const id of [dead, ended]) {
    await database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, deaths, finished_at)
       values ($1, 'email', 't', 'failed', 1, 1, 1, now() - interval '59 days')`,
      [id],
    );
  }
  await database.rows(
    `insert into waybill.dead_letter (id, queue, type, version, attempts, failure_class, message, fingerprint, payload, payload_base64, enqueued_at, died_at)
     values ($1, 'email', 't', 1, 1, 'unknown', 'm', 'f', '{}', false, now() - interval '60 days', now())`,
    [dead],
  );

  house.startRelay();
  await eventually(async () => expect(await partitionsOf(house)).not.toContain("inbox_20200101"));
  await createRelayStore(database.pool).prune("inbox_default", 1, 100);

  expect(await database.rows("select id, state from waybill.inbox")).toEqual([
    { id: dead, state: "failed" },
  ]);
  await createJobs({ database: pgDatabase(database.pool) }).retry(dead);
  expect(await database.rows("select id, dispatch from waybill.outbox")).toEqual([
    { id: dead, dispatch: 2 },
  ]);
});
