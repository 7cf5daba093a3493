/** The database, or the way to it, fails; and how the relay learns of new jobs meanwhile. */

import { expect, test } from "vitest";

import { startPrivatePostgres } from "../../scripts/services/index.ts";
import { createTestDatabase, eventually, startProxy } from "../support/index.ts";
import { startPoolerLike } from "./pooler-like.ts";
import { enqueue, isDrained, openTransaction, startHouse } from "./support.ts";

test("A33, E3: PostgreSQL killed and started again under load ends neither the relay nor any job", async () => {
  await using server = await startPrivatePostgres();
  await using house = await startHouse({ database: { serverUrl: server.url } });
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ batchSize: 50 });
  await eventually(() => relay.it.status().state === "leading");
  const committed: string[] = [];
  const put = async (): Promise<void> => {
    const ids = await enqueue(
      house.database.pool,
      Array.from({ length: 50 }, () => ({})),
    ).catch(() => []);
    committed.push(...ids);
  };

  for (let round = 0; round < 2; round += 1) {
    await put();
    await put();
    await server.kill("SIGKILL");
    await put();
    await server.start();
    await eventually(() => relay.it.status().state === "leading", { deadlineMs: 20_000 });
    await put();
  }

  await eventually(() => isDrained(house), { deadlineMs: 20_000 });
  // Commits whose answer was lost may be among them too: compared with what is stored.
  const stored = await house.database.rows<{ id: string }>("select id from waybill.outbox");
  await eventually(() => collected.ids.length === stored.length);
  expect(new Set(collected.ids)).toEqual(new Set(stored.map(({ id }) => id)));
  expect(new Set(collected.ids).isSupersetOf(new Set(committed))).toBe(true);
  await relay.stop();
}, 90_000);

test("a database that cannot be reached for a while is waited for, and the relay says so", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.database.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ databaseUrl: proxy.url(house.database.url) });
  await eventually(() => relay.it.status().state === "leading");

  proxy.refuse();
  await enqueue(house.database.pool, [{}]);
  await eventually(() => relay.it.status().state === "recovering");
  await eventually(() => relay.it.status().lastError?.includes("PostgreSQL") === true);
  proxy.pass();

  await eventually(() => collected.messages.length === 1);
  await eventually(() => expect(relay.it.status().lastError).toBeUndefined());
});

test("B6: a save whose answer is lost repeats messages at most, and loses none", async () => {
  await using house = await startHouse();
  await using proxy = await startProxy(house.database.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ databaseUrl: proxy.url(house.database.url), batchSize: 20 });
  await eventually(() => relay.it.status().state === "leading");
  proxy.cutReply("save_cursor");

  const ids = await enqueue(
    house.database.pool,
    Array.from({ length: 100 }, () => ({})),
  );

  await eventually(() => proxy.triggeredCount === 1);
  await eventually(() => isDrained(house));
  await eventually(() => collected.ids.length === 100);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
});

test("B8: when the listener dies the relay polls, and listens again soon", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ idlePollMs: 200 });
  await eventually(() => relay.it.status().wakeUp === "listening");

  await house.database.rows(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'waybill-relay%' and query ilike '%listen%'`,
  );
  await eventually(() => relay.it.status().wakeUp === "polling", { intervalMs: 1 });
  await enqueue(house.database.pool, [{}]);

  await eventually(() => collected.messages.length === 1);
  await eventually(() => relay.it.status().wakeUp === "listening");
  expect(relay.it.status().state).toBe("leading");
});

test("a hint wakes an idle relay long before its next look", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ idlePollMs: 10_000 });
  await eventually(() => relay.it.status().wakeUp === "listening");
  await enqueue(house.database.pool, [{}]);
  await eventually(() => collected.messages.length === 1);
  await eventually(() => isDrained(house));

  await enqueue(house.database.pool, [{}]);

  await eventually(() => expect(collected.messages).toHaveLength(2), { deadlineMs: 5_000 });
});

test("jobs enqueued without a hint are found by polling", async () => {
  await using house = await startHouse();
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay();

  await house.database.rows(
    `select id from waybill.enqueue('[{"queue":"email","type":"t","payload":1}]', false)`,
  );

  await eventually(() => expect(collected.messages).toHaveLength(1));
});

test("E9: behind a transaction pooler the relay polls, and publishes everything once", async () => {
  await using house = await startHouse();
  await using pooler = await startPoolerLike(house.database.url);
  await house.declare("email");
  const collected = await house.collect("email");
  const relay = house.startRelay({ databaseUrl: pooler.url, batchSize: 30 });
  const ids: string[] = [];

  for (let n = 0; n < 10; n += 1) {
    ids.push(
      ...(await enqueue(
        house.database.pool,
        Array.from({ length: 20 }, () => ({})),
      )),
    );
  }

  await eventually(() => collected.ids.length === 200);
  expect(collected.messages).toHaveLength(200);
  expect(new Set(collected.ids)).toEqual(new Set(ids));
  expect(relay.it.status()).toMatchObject({ state: "leading", wakeUp: "polling" });
  await eventually(() => isDrained(house));
});

test("B2: a transaction that is held open in another database of the server delays nothing", async () => {
  await using house = await startHouse();
  await using other = await createTestDatabase();
  await other.rows("create table held (n int)");
  await house.declare("email");
  const collected = await house.collect("email");
  house.startRelay();
  await using held = await openTransaction(other.pool);
  await held.client.query("insert into held values (1)");
  await held.client.query("select pg_current_xact_id()");

  for (let n = 0; n < 20; n += 1) await enqueue(house.database.pool, [{}]);

  await eventually(() => isDrained(house));
  await eventually(() => expect(collected.messages).toHaveLength(20));
});
