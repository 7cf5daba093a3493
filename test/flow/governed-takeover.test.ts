/** Relays that dispatch governed queues and die, or are told that they do no longer. */

import { createGovernorStore, type Round } from "@waybill/postgres";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { type Flow, startFlow } from "./support/flow.ts";

const nothing = { slots: 0, backlog: 0 };

async function finish(flow: Flow, ids: readonly string[]): Promise<void> {
  flow.startRelay();
  await flow.ended(ids);
  await eventually(async () => expect(await flow.leftovers()).toEqual(nothing));
}

test("B4: a relay killed between the slots and their messages loses nothing, and its successor sends them", async () => {
  await using flow = await startFlow({ keys: { concurrency: 2 } });
  await flow.startWorker((job) => flow.note(job));
  const ids = await flow.enqueue(30, (n) => ({ concurrencyKey: `k${n % 3}` }));

  await flow.killRelayAt("relay.afterRound", 2);
  const dispatched = await flow.leftovers();
  await finish(flow, ids);

  expect(dispatched.slots).toBeGreaterThan(0);
  expect(flow.starts()).toHaveLength(30);
  expect(flow.mostAtOnce(({ key }) => key)).toBeLessThanOrEqual(2);
});

test("B4: a relay killed after a confirm and before its page is settled runs nothing twice and leaves no slot", async () => {
  await using flow = await startFlow({ keys: {}, order: {} });
  await flow.startWorker((job) => flow.note(job));
  const ids = await flow.enqueue(30, (n) => ({ orderingKey: `o${n % 3}` }));

  await flow.killRelayAt("relay.afterConfirm", 5);
  await finish(flow, ids);

  expect(flow.starts()).toHaveLength(30);
  for (const key of [0, 1, 2]) {
    const order = flow.starts().flatMap(({ n }) => (n % 3 === key ? [n] : []));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
});

test("B4: a relay killed before it saves its position makes no job wait twice", async () => {
  await using flow = await startFlow({ keys: { concurrency: 1 } });
  const ids = await flow.enqueue(20, () => ({ concurrencyKey: "k" }));
  await flow.startWorker((job) => flow.note(job));

  await flow.killRelayAt("relay.beforeSave", 1);
  await finish(flow, ids);

  expect(flow.starts()).toHaveLength(20);
  expect(flow.mostAtOnce(() => "all")).toBe(1);
});

const emptyRound: Round = { read: [], taken: [], renewed: [], refused: [] };

function readJob(id: string, slot: boolean): Round["read"][number] {
  return {
    id,
    queue: "work",
    place: 1,
    key: "",
    orderingKey: null,
    type: "flow.job",
    priority: 0,
    dispatch: 1,
    enqueuedAtMs: 0,
    slot,
  };
}

test("a round of an earlier term, or with settings that have changed since, writes nothing", async () => {
  await using flow = await startFlow({ keys: {} });
  const store = createGovernorStore(flow.app.database.pool);
  const [id = ""] = await flow.enqueue(1);
  await flow.sql("update waybill.relay set epoch = 7");
  const { revision } = await store.governance();
  const round = { ...emptyRound, read: [readJob(id, true)] };

  const old = await store.round("6", revision, round);
  const stale = await store.round("7", String(Number(revision) - 1), round);
  const between = await flow.leftovers();
  const good = await store.round("7", revision, round);

  expect([old, stale, good].map(({ held, current }) => [held, current])).toEqual([
    [false, false],
    [true, false],
    [true, true],
  ]);
  expect(between).toEqual(nothing);
  expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 0 });
});

test("a relay that has lost its term takes no news from its successor", async () => {
  await using flow = await startFlow({ keys: {} });
  const store = createGovernorStore(flow.app.database.pool);
  await flow.sql("update waybill.relay set epoch = 7");
  await flow.sql("insert into waybill.freed (queue) values ('work')");

  expect(await store.freed("6", "0")).toHaveLength(0);
  expect(await store.freed("7", "0")).toHaveLength(1);
});

test("a row of the backlog that an open transaction holds stops no round", async () => {
  await using flow = await startFlow({ keys: {} });
  const store = createGovernorStore(flow.app.database.pool);
  const ids = await flow.enqueue(2);
  await flow.sql("update waybill.relay set epoch = 7");
  const { revision } = await store.governance();
  const read = ids.map((id) => readJob(id, false));
  await store.round("7", revision, { ...emptyRound, read });
  const client = await flow.app.database.pool.connect();
  await client.query("begin");
  await client.query("select from waybill.backlog where id = $1 for update", [ids[0]]);

  const taken = ids.map((id) => ({ id, queue: "work" }));
  const { rows } = await store.round("7", revision, { ...emptyRound, taken });
  await client.query("rollback");
  client.release();

  expect(rows.map(({ id }) => id)).toEqual([ids[1]]);
  expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 1 });
});

test("a slot of a job that has ended is given back", async () => {
  await using flow = await startFlow({ keys: {} });
  const [id = ""] = await flow.enqueue(1);
  const store = createGovernorStore(flow.app.database.pool);
  await flow.sql("update waybill.relay set epoch = 7");
  const { revision } = await store.governance();
  await store.round("7", revision, { ...emptyRound, read: [readJob(id, true)] });
  await flow.sql(
    `insert into waybill.inbox (id, queue, type, state, dispatch, finished_at)
     values ($1, 'work', 'flow.job', 'succeeded', 1, clock_timestamp() - interval '1 minute')`,
    [id],
  );

  expect(await store.healSlots()).toBe(1);
  expect(await flow.leftovers()).toEqual(nothing);
  expect(await store.freed("7", "0")).toMatchObject([{ queue: "work", ended: [id] }]);
});

test("a copy that was put aside while its job had a slot is published again, and takes no other slot", async () => {
  await using flow = await startFlow({ keys: {} });
  await flow.declare();
  const [id = ""] = await flow.enqueue(1);
  await flow.sql(
    `insert into waybill.slot (id, queue, place, key, type, priority, dispatch, enqueued_at)
     values ($1, 'work', 1, '', 'flow.job', 0, 1, now())`,
    [id],
  );
  await flow.sql(
    `insert into waybill.inbox (id, queue, type, state, attempt, dispatch)
     values ($1, 'work', 'flow.job', 'running', 1, 1)`,
    [id],
  );
  flow.startRelay();
  // The row that the relay finds: its predecessor may have died before it was published.
  const first = await flow.app.courier.next("waybill.work");

  await flow.sql(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, type, payload)
     values ($1, 'work', 1, now(), 'held', 'flow.job', '{"n":0}')`,
    [id],
  );

  const copy = await flow.app.courier.next("waybill.work");
  expect([first, copy].map(({ properties }) => properties["messageId"])).toEqual([id, id]);
  expect(copy.headers["waybill-slot"]).toBeDefined();
  expect(await flow.leftovers()).toEqual({ slots: 1, backlog: 0 });
});
