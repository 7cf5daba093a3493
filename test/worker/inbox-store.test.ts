import { randomUUID } from "node:crypto";
import { newJobId } from "@waybill/core";
import {
  type ClaimRequest,
  createInboxStore,
  type InboxStore,
  statementsFor,
} from "@waybill/postgres";
import { beforeAll, expect, test } from "vitest";
import { createMigratedDatabase, type TestDatabase } from "../support/index.ts";
import { addWorker } from "../support/worker-row.ts";

const owners = { me: randomUUID(), alive: randomUUID(), dead: randomUUID() };

let database: TestDatabase;
let store: InboxStore;

beforeAll(async () => {
  database = await createMigratedDatabase();
  store = createInboxStore(database.pool);
  for (const name of ["me", "alive"] as const) {
    await addWorker(database, name, { id: owners[name] });
  }
  return () => database[Symbol.asyncDispose]();
});

const request = (id: string, death = 0): ClaimRequest => ({
  id,
  queue: "q",
  type: "t",
  dispatch: 2,
  death,
  enqueuedAt: null,
  expiresAt: null,
  onTerminal: null,
});

const look = async (id: string): Promise<unknown> =>
  (await database.rows("select * from waybill.inbox where id = $1", [id]))[0];

test("a redrive by hand is recorded once and closes its dead letter", async () => {
  const id = newJobId();
  await database.pool.query(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, deaths)
     values ($1, 'q', 't', 'failed', 3, 2, 1)`,
    [id],
  );
  await database.pool.query(
    `insert into waybill.dead_letter (id, queue, type, attempts, failure_class, message, fingerprint, payload, enqueued_at)
     values ($1, 'q', 't', 3, 'unknown', 'm', 'f', '{}', now())`,
    [id],
  );

  const [first] = await store.claim(owners.me, [request(id, 1)]);
  await store.release([{ id, queue: "q", token: first?.token ?? "", dispatch: 2 }]);
  await store.claim(owners.me, [request(id, 1)]);

  expect(await database.rows("select action from waybill.audit_log where id = $1", [id])).toEqual([
    { action: "redrive" },
  ]);
  expect(await database.rows("select id from waybill.dead_letter where id = $1", [id])).toEqual([]);
});

test("a job handed back runs again with its next delivery and spends no attempt", async () => {
  const id = newJobId();
  const [first] = await store.claim(owners.alive, [request(id)]);

  const released = await store.release([
    { id, queue: "q", token: first?.token ?? "", dispatch: 2 },
  ]);
  const [second] = await store.claim(owners.me, [request(id)]);

  expect(released).toHaveLength(1);
  expect(second).toMatchObject({ state: "running", attempt: 1, crashes: 0 });
});

test("a write with an older token changes nothing", async () => {
  const id = newJobId();
  const [old] = await store.claim(owners.dead, [request(id)]);
  await store.claim(owners.me, [request(id)]);
  const before = await look(id);
  const stale = { id, queue: "q", token: old?.token ?? "", dispatch: 2 };

  const changed = [
    ...(await store.complete([{ ...stale, result: null }])),
    ...(await store.release([stale])),
  ];

  expect(changed).toEqual([]);
  expect(await look(id)).toEqual(before);
});

test("a worker whose session lock is gone is dead before its lease is over", async () => {
  const id = newJobId();
  const holder = await database.pool.connect();
  const key = "4711";
  await holder.query(statementsFor().lock_worker.text, [key]);
  const owner = await addWorker(database, "w", { lock_key: key });
  await store.claim(owner, [request(id)]);

  const [while_] = await store.claim(owners.me, [request(id)]);
  await holder.query("select pg_advisory_unlock_all()");
  holder.release();
  const [after] = await store.claim(owners.me, [request(id)]);

  expect(while_).toMatchObject({ owner, state: "running" });
  expect(after).toMatchObject({ owner: owners.me, crashes: 1 });
});

test("statements of the worker use the primary key on an empty table, whatever was planned before", async () => {
  const client = await database.pool.connect();
  try {
    await client.query(
      "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off",
    );
    const statements = statementsFor();
    for (const name of [
      "complete_jobs",
      "fail_attempts",
      "release_jobs",
      "read_outcomes",
    ] as const) {
      const { rows } = await client.query<{ "QUERY PLAN": string }>({
        text: `explain ${statements[name].text}`,
        values: ["[]"],
      });
      const plan = rows.map((line) => line["QUERY PLAN"]).join("\n");
      expect(plan).not.toMatch(/Seq Scan on inbox/);
      expect(plan).toMatch(/Index (Only )?Scan using inbox/);
    }
  } finally {
    client.release(true);
  }
});
