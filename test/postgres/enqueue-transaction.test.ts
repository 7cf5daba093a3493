import { defineEvent, defineJob, WaybillError } from "@waybill/core";
import { createOutbox, pgDatabase } from "@waybill/postgres";
import { Client, Pool } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { anyJob, startApplication } from "./application.ts";

const codeOf = async (failing: Promise<unknown>): Promise<unknown> => {
  const error = await failing.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return WaybillError.is(error) ? error.code : error;
};

test("a committed transaction stores its row and its job by one transaction", async () => {
  await using app = await startApplication();

  const { jobId, deduplicated } = await app.database.transaction(async (tx) => {
    await tx.query("insert into orders (note) values ('a')");
    return app.outbox.enqueue(tx, anyJob, { order: 1 });
  });

  expect(deduplicated).toBe(false);
  const rows = await app.db.rows(
    `select o.id, o.kind, o.queue, o.type, o.version, o.payload, o.dispatch, o.xmin::text = r.xmin::text as together
     from waybill.outbox as o, orders as r`,
  );
  expect(rows).toEqual([
    {
      id: jobId,
      kind: "job",
      queue: "tests",
      type: "test.any",
      version: 1,
      payload: '{"order":1}',
      dispatch: 1,
      together: true,
    },
  ]);
});

test("A3: a rolled back transaction enqueues nothing and wakes nobody", async () => {
  await using app = await startApplication();
  await using listener = await listen(app.db.url);

  for (let n = 0; n < 50; n += 1) {
    const rolledBack = app.database.transaction(async (tx) => {
      await app.outbox.enqueue(tx, anyJob, n, { idempotencyKey: `k${n}` });
      await app.outbox.enqueue(tx, anyJob, n, { delayMs: 60_000 });
      throw new Error("no");
    });
    await expect(rolledBack).rejects.toThrow("no");
  }

  expect(await app.count("waybill.outbox")).toBe(0);
  expect(await app.count("waybill.timer")).toBe(0);
  expect(await app.count("waybill.idempotency_key")).toBe(0);
  await app.pool.query("notify \"waybill.wake\", 'end'");
  await eventually(() => listener.payloads.includes("end"));
  expect(listener.payloads).toEqual(["end"]);
});

test("A3: a savepoint that is rolled back takes its jobs along and leaves the others", async () => {
  await using app = await startApplication();

  await app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, anyJob, "before");
    await tx.query("savepoint inner_step");
    await app.outbox.enqueue(tx, anyJob, "inside");
    await tx.query("rollback to savepoint inner_step");
    await app.outbox.enqueue(tx, anyJob, "after");
  });

  expect(await app.payloads()).toEqual(['"before"', '"after"']);
});

test("A41: a job is visible to others only after its commit", async () => {
  await using app = await startApplication();

  const seen = await app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, anyJob, 1);
    return app.count("waybill.outbox");
  });

  expect(seen).toBe(0);
  expect(await app.count("waybill.outbox")).toBe(1);
});

test("A4: what is not a transaction is refused, and nothing is written", async () => {
  await using app = await startApplication();
  await using client = await connect(app.db.url);
  const outbox = app.outbox as unknown as {
    enqueue(...args: unknown[]): Promise<unknown>;
    enqueueMany(...args: unknown[]): Promise<unknown>;
  };

  for (const handle of [app.pool, client, {}, undefined, null, "tx", 7]) {
    expect(await codeOf(outbox.enqueue(handle, anyJob, 1))).toBe("WAYBILL_NOT_IN_TRANSACTION");
    expect(await codeOf(outbox.enqueueMany(handle, anyJob, []))).toBe("WAYBILL_NOT_IN_TRANSACTION");
  }

  expect(await app.count("waybill.outbox")).toBe(0);
});

test("A4: autocommit enqueues on a pool or a client without a transaction", async () => {
  await using app = await startApplication();
  await using client = await connect(app.db.url);

  await app.outbox.enqueue(app.pool, anyJob, 1, { autocommit: true });
  await app.outbox.enqueue(client, anyJob, 2, { autocommit: true });

  expect(await app.payloads()).toEqual(["1", "2"]);
});

test("enqueueMany is one statement, keeps the order, and gives the ids back in it", async () => {
  await using app = await startApplication();
  const items = Array.from({ length: 2_000 }, (_, n) => ({ payload: { n } }));

  const { receipts, statements } = await app.database.transaction(async (tx) => {
    const query = tx.query.bind(tx);
    let calls = 0;
    const counting = new Proxy(tx, {
      get: (target, key) =>
        key === "query"
          ? (...args: Parameters<typeof query>) => {
              calls += 1;
              return query(...args);
            }
          : Reflect.get(target, key),
    });
    return { receipts: await app.outbox.enqueueMany(counting, anyJob, items), statements: calls };
  });

  expect(statements).toBe(1);
  const rows = await app.db.rows<{ id: string; payload: string }>(
    "select id, payload from waybill.outbox order by seq",
  );
  expect(rows.map((row) => row.payload)).toEqual(items.map((item) => JSON.stringify(item.payload)));
  expect(rows.map((row) => row.id)).toEqual(receipts.map((receipt) => receipt.jobId));
  expect(await app.database.transaction((tx) => app.outbox.enqueueMany(tx, anyJob, []))).toEqual(
    [],
  );
});

test("a delayed job waits in the timers, one that is due goes to the outbox", async () => {
  await using app = await startApplication();
  const runAt = new Date("2100-01-02T03:04:05.678Z");

  await app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, anyJob, "at", { runAt });
    await app.outbox.enqueue(tx, anyJob, "in", { delayMs: 3_600_000 });
    await app.outbox.enqueue(tx, anyJob, "past", { runAt: new Date("2000-01-01") });
    await app.outbox.enqueue(tx, anyJob, "now", { delayMs: 0 });
  });

  expect(await app.payloads()).toEqual(['"past"', '"now"']);
  const timers = await app.db.rows<{ payload: string; fire_at: Date; hour: boolean }>(
    `select payload, fire_at, reason, fire_at - enqueued_at = interval '1 hour' as hour
     from waybill.timer order by fire_at desc`,
  );
  expect(timers).toMatchObject([
    { payload: '"at"', fire_at: runAt, reason: "delay" },
    { payload: '"in"', hour: true, reason: "delay" },
  ]);
});

test("every option of an enqueue arrives in its column", async () => {
  await using app = await startApplication({ appId: "shop" });
  const job = defineJob({
    name: "mail.send",
    queue: "mails",
    version: 3,
    priority: 5,
    payload: z.strictObject({ to: z.string() }),
  });
  const happened = defineEvent({ name: "order.paid", payload: z.strictObject({ id: z.int() }) });

  await app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, job, { to: "a@b" }, { orderingKey: "o1", correlationId: "c1" });
    await app.outbox.enqueue(
      tx,
      job,
      { to: "a@b" },
      {
        priority: -7,
        expiresAt: new Date("2100-01-01"),
        headers: {
          traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          "app-id": "x",
        },
      },
    );
    await app.outbox.enqueue(
      tx,
      job,
      { to: "a@b" },
      { route: { exchange: "", routingKey: "raw" } },
    );
    await app.outbox.publish(tx, happened, { id: 1 }, { headers: { tenant: "t" } });
  });

  const rows = await app.db.rows(
    `select kind, queue, type, version, priority, ordering_key, correlation_id, headers, exchange, routing_key,
       expires_at = '2100-01-01T00:00:00Z' as expires
     from waybill.outbox order by seq`,
  );
  expect(rows).toMatchObject([
    {
      kind: "job",
      queue: "mails",
      version: 3,
      priority: 5,
      ordering_key: "o1",
      correlation_id: "c1",
      headers: { "app-id": "shop" },
    },
    {
      kind: "job",
      priority: -7,
      expires: true,
      headers: { traceparent: expect.stringMatching(/^00-/), "app-id": "x" },
    },
    { kind: "route", queue: null, type: "mail.send", exchange: "", routing_key: "raw" },
    { kind: "event", queue: null, type: "order.paid", headers: { tenant: "t" }, exchange: null },
  ]);
});

test("the relay is woken at most once in 20 ms, and not at all with hint: false", async () => {
  await using app = await startApplication();
  await using listener = await listen(app.db.url);
  const silent = createOutbox({ database: app.database, hint: false });

  const startedAt = performance.now();
  for (let n = 0; n < 50; n += 1) {
    await app.outbox.enqueue(app.pool, anyJob, n, { autocommit: true });
    await silent.enqueue(app.pool, anyJob, n, { autocommit: true });
  }
  const elapsedMs = performance.now() - startedAt;
  await app.pool.query("notify \"waybill.wake\", 'end'");
  await eventually(() => listener.payloads.includes("end"));

  const hints = listener.payloads.filter((payload) => payload === "").length;
  expect(hints).toBeGreaterThanOrEqual(1);
  expect(hints).toBeLessThanOrEqual(1 + elapsedMs / 20);
});

test("an enqueue in another schema leaves the default one alone", async () => {
  await using app = await startApplication({ schema: "select" });

  await app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, 1));

  expect(await app.count('"select".outbox')).toBe(1);
  expect((await app.jobs.list()).jobs).toHaveLength(1);
  expect(await app.db.rows("select to_regnamespace('waybill')::text as schema")).toEqual([
    { schema: null },
  ]);
});

test("createOutbox names every wrong option at once", async () => {
  const pool = new Pool();
  const options = {
    database: pgDatabase(pool),
    maxPayloadBytes: 0,
    hint: 1,
    other: true,
    appId: "",
  };

  expect(() => createOutbox(options as never)).toThrow(
    /other: is not an option[\s\S]*maxPayloadBytes: must be an integer[\s\S]*hint: [\s\S]*appId: /,
  );
  expect(() => createOutbox({ database: pgDatabase(pool), schema: 'x"; drop' })).toThrow(
    /schema name/,
  );
  await pool.end();
});

async function connect(url: string): Promise<Client & AsyncDisposable> {
  const client = new Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

async function listen(url: string): Promise<{ readonly payloads: string[] } & AsyncDisposable> {
  const client = await connect(url);
  const payloads: string[] = [];
  client.on("notification", ({ payload }) => payloads.push(payload ?? ""));
  await client.query('listen "waybill.wake"');
  return { payloads, [Symbol.asyncDispose]: () => client.end() };
}
