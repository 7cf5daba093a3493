import { defineJob } from "@waybill/core";
import { type EnqueueOptions, type EnqueueReceipt, statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type Application, anyJob, setInbox, startApplication } from "./application.ts";

const minute = 60_000;
const debounced = { idempotencyKey: "doc-7", debounceMs: minute } as const;

/** Enqueues in a transaction of its own. */
const enqueue = (
  app: Application,
  payload: unknown,
  options: EnqueueOptions = debounced,
): Promise<EnqueueReceipt> =>
  app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, payload, options));

/** What waits in the timers, oldest first. */
const timers = (app: Application): Promise<Record<string, unknown>[]> =>
  app.db.rows(
    `select id::text as id, payload, headers, version, priority, correlation_id, expires_at is not null as expires,
       round(extract(epoch from fire_at - enqueued_at) * 1000)::float as waits
     from waybill.timer order by enqueued_at`,
  );

/** Moves due timers into the outbox, as the relay does. */
const fire = async (app: Application): Promise<number> =>
  (await app.pool.query(statementsFor().fire_timers.text, [100])).rows.length;

/** Puts the only timer into the backlog, as the relay does with a job of a governed queue. */
async function intoBacklog(app: Application): Promise<void> {
  await app.pool.query("update waybill.timer set fire_at = now()");
  expect(await fire(app)).toBe(1);
  await app.pool.query(
    `insert into waybill.backlog (id, queue, place, key, ordering_key, type, priority, enqueued_at)
     select o.id, o.queue, o.seq, coalesce(o.headers ->> 'waybill-concurrency-key', ''), o.ordering_key, o.type,
       coalesce(o.priority, 0), o.enqueued_at
     from waybill.outbox as o
     on conflict do nothing`,
  );
}

test("a debounced job waits, and each later enqueue gives it its own content and puts it off", async () => {
  await using app = await startApplication();
  const newer = defineJob({ name: anyJob.name, queue: "tests", version: 2, payload: z.unknown() });

  const first = await enqueue(app, "first", { ...debounced, headers: { a: "1" }, priority: 3 });
  await app.pool.query("update waybill.timer set fire_at = fire_at - interval '50 s'");
  const second = await app.database.transaction((tx) =>
    app.outbox.enqueue(tx, newer, "second", {
      ...debounced,
      headers: { b: "2" },
      priority: 7,
      correlationId: "c",
      expiresAt: new Date(Date.now() + 3_600_000),
    }),
  );

  expect(first.deduplicated).toBe(false);
  expect(second).toEqual({ jobId: first.jobId, deduplicated: true });
  const [timer, ...more] = await timers(app);
  expect(more).toEqual([]);
  expect(timer).toMatchObject({
    id: first.jobId,
    payload: '"second"',
    headers: { b: "2" },
    version: 2,
    priority: 7,
    correlation_id: "c",
    expires: true,
  });
  expect(timer?.["waits"]).toBeGreaterThanOrEqual(minute);
  expect(await app.count("waybill.outbox")).toBe(0);
});

test.each([
  ["ten times the pause, where nothing else is said", undefined, 10 * minute],
  ["what was asked for", 90_000, 90_000],
])("a debounced job waits no longer than %s after its first enqueue", async (_, max, waits) => {
  await using app = await startApplication();
  const options = { ...debounced, debounceMaxMs: max };
  await enqueue(app, 1, options);
  await app.pool.query(
    `update waybill.timer set enqueued_at = enqueued_at - interval '1 ms' * $1`,
    [waits - 5_000],
  );

  const second = await enqueue(app, 2, options);

  expect(second.deduplicated).toBe(true);
  expect(await timers(app)).toMatchObject([{ payload: "2", waits }]);
});

test("a job that is due is left as it is, and the enqueue is a new job under the key", async () => {
  await using app = await startApplication();
  const first = await enqueue(app, 1);
  await app.pool.query("update waybill.timer set fire_at = now()");

  const second = await enqueue(app, 2);
  const third = await enqueue(app, 3);

  expect(second.deduplicated).toBe(false);
  expect(third).toEqual({ jobId: second.jobId, deduplicated: true });
  expect(await timers(app)).toMatchObject([
    { id: first.jobId, payload: "1" },
    { id: second.jobId, payload: "3" },
  ]);
});

test.each(["queued", "running", "retry_waiting", "succeeded", "failed", "cancelled"])(
  "a job that has left the timers and is %s is left as it is, and the enqueue is a new job",
  async (state) => {
    await using app = await startApplication();
    const first = await enqueue(app, 1);
    await app.pool.query("update waybill.timer set fire_at = now()");
    await fire(app);
    if (state !== "queued") await setInbox(app, first.jobId, state);

    const second = await enqueue(app, 2);

    expect(second.deduplicated).toBe(false);
    expect(await app.payloads()).toEqual(["1"]);
    expect(await timers(app)).toMatchObject([{ id: second.jobId, payload: "2" }]);
  },
);

test("a retry of a started job is not replaced, though it waits in the timers or the backlog", async () => {
  await using app = await startApplication();
  const first = await enqueue(app, 1);
  await intoBacklog(app);
  await setInbox(app, first.jobId, "retry_waiting");

  const second = await enqueue(app, 2);
  await app.pool.query(
    `insert into waybill.timer (id, queue, dispatch, fire_at, reason, type, payload)
     values ($1, 'tests', 2, now() + interval '1 hour', 'retry', 'test.any', '2')`,
    [second.jobId],
  );
  await app.pool.query("delete from waybill.timer where reason = 'delay'");
  await setInbox(app, second.jobId, "retry_waiting");
  const third = await enqueue(app, 3);

  expect([second.deduplicated, third.deduplicated]).toEqual([false, false]);
  expect(await app.payloads()).toEqual(["1"]);
});

test("a job in the backlog of a governed queue gets the latest content where it waits, and the relay is told", async () => {
  await using app = await startApplication();
  const keyed = { ...debounced, concurrencyKey: "acme" };
  const first = await enqueue(app, 1, keyed);
  await intoBacklog(app);

  const second = await enqueue(app, 2, { ...keyed, headers: { b: "2" }, priority: 7 });

  expect(second).toEqual({ jobId: first.jobId, deduplicated: true });
  expect(await timers(app)).toEqual([]);
  const headers = { b: "2", "waybill-concurrency-key": "acme" };
  expect(await app.db.rows("select payload, headers, priority from waybill.outbox")).toEqual([
    { payload: "2", headers, priority: 7 },
  ]);
  expect(await app.db.rows("select payload, priority, lane from waybill.backlog")).toEqual([
    { payload: "2", priority: 7, lane: "7/test.any/acme" },
  ]);
  expect(await app.db.rows("select queue, changed::text[] as changed from waybill.freed")).toEqual([
    { queue: "tests", changed: [first.jobId] },
  ]);
});

test("a job in the backlog is not given the payload of another version", async () => {
  await using app = await startApplication();
  const newer = defineJob({ name: anyJob.name, queue: "tests", version: 2, payload: z.unknown() });
  await enqueue(app, 1);
  await intoBacklog(app);

  const second = await app.database.transaction((tx) =>
    app.outbox.enqueue(tx, newer, 2, debounced),
  );

  expect(second.deduplicated).toBe(false);
  expect(await app.payloads()).toEqual(["1"]);
  expect(await timers(app)).toMatchObject([{ payload: "2", version: 2 }]);
});

test("a waiting job is not replaced by one for another queue, concurrency key or ordering key", async () => {
  await using app = await startApplication();
  const moved = defineJob({ name: anyJob.name, queue: "elsewhere", payload: z.unknown() });

  const receipts = [
    await enqueue(app, 1),
    await app.database.transaction((tx) => app.outbox.enqueue(tx, moved, 2, debounced)),
    await enqueue(app, 3, { ...debounced, concurrencyKey: "acme" }),
    await enqueue(app, 4, { ...debounced, orderingKey: "o" }),
  ];

  expect(new Set(receipts.map(({ jobId }) => jobId)).size).toBe(4);
  expect((await timers(app)).map((timer) => timer["payload"])).toEqual(["1", "2", "3", "4"]);
});

test("of one bulk the last payload of a key is written, once", async () => {
  await using app = await startApplication();
  const item = (
    payload: unknown,
    options: EnqueueOptions = debounced,
  ): { payload: unknown; options: EnqueueOptions } => ({ payload, options });

  const receipts = await app.database.transaction((tx) =>
    app.outbox.enqueueMany(tx, anyJob, [
      item("a"),
      item("b", { ...debounced, idempotencyKey: "other" }),
      item("c", { ...debounced, concurrencyKey: "acme" }),
      item("d", { ...debounced, concurrencyKey: "acme" }),
      item("e", { ...debounced, concurrencyKey: "acme" }),
    ]),
  );

  expect(receipts.map(({ deduplicated }) => deduplicated)).toEqual([
    false,
    false,
    false,
    true,
    true,
  ]);
  expect(new Set(receipts.slice(2).map(({ jobId }) => jobId)).size).toBe(1);
  const written = (await timers(app)).map(({ id, payload }) => [id, payload]);
  expect(written).toHaveLength(3);
  expect(Object.fromEntries(written)).toEqual({
    [receipts[0]?.jobId ?? ""]: '"a"',
    [receipts[1]?.jobId ?? ""]: '"b"',
    [receipts[2]?.jobId ?? ""]: '"e"',
  });
});

test("events and routes are debounced as jobs are", async () => {
  await using app = await startApplication();
  const route = { exchange: "e", routingKey: "k" };

  const first = await enqueue(app, 1, { ...debounced, route });
  const second = await enqueue(app, 2, { ...debounced, route });
  const other = await enqueue(app, 3, { ...debounced, route: { ...route, routingKey: "l" } });

  expect(second).toEqual({ jobId: first.jobId, deduplicated: true });
  expect(other.deduplicated).toBe(false);
  expect((await timers(app)).map((timer) => timer["payload"])).toEqual(["2", "3"]);
});

test("callers that race for a key agree on one job, and it carries the payload of the last one", async () => {
  await using app = await startApplication();

  for (let round = 0; round < 10; round += 1) {
    const order: number[] = [];
    const receipts = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        app.database.transaction(async (tx) => {
          const receipt = await app.outbox.enqueue(tx, anyJob, `${round}.${n}`, {
            ...debounced,
            idempotencyKey: `k${round}`,
          });
          // The key is this transaction's now: the next one comes after its end.
          order.push(n);
          return receipt;
        }),
      ),
    );

    expect(new Set(receipts.map(({ jobId }) => jobId)).size).toBe(1);
    expect(receipts.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect((await timers(app)).at(-1)?.["payload"]).toBe(`"${round}.${order.at(-1)}"`);
  }
  expect(await app.count("waybill.timer")).toBe(10);
});

test("while timers fire, no payload that replaced another is lost, and none is written twice", async () => {
  await using app = await startApplication();
  // As the relay fires timers, though not yet due.
  const text = statementsFor().fire_timers.text.replace("statement_timestamp()", "'infinity'");
  const firing: Promise<unknown>[] = [];
  const order: number[] = [];
  const receipts: EnqueueReceipt[] = [];

  await Promise.all(
    Array.from({ length: 6 }, async (_, producer) => {
      for (let n = 0; n < 30; n += 1) {
        const payload = producer * 1_000 + n;
        await app.database.transaction(async (tx) => {
          receipts.push(await app.outbox.enqueue(tx, anyJob, payload, debounced));
          order.push(payload);
          if ((n + producer) % 5 === 0) firing.push(app.pool.query(text, [100]));
        });
      }
    }),
  );
  await Promise.all(firing);
  await app.pool.query(text, [100]);

  // Each job has the payload of the last enqueue that was answered with its id.
  const last = new Map(receipts.map(({ jobId }, n) => [jobId, String(order[n])]));
  const written = await app.db.rows<{ id: string; payload: string }>(
    "select id::text as id, payload from waybill.outbox",
  );
  expect(written).toHaveLength(last.size);
  expect(new Map(written.map(({ id, payload }) => [id, payload]))).toEqual(last);
  expect(receipts.filter(({ deduplicated }) => !deduplicated)).toHaveLength(last.size);
  expect(last.size).toBeGreaterThan(1);
  expect(last.size).toBeLessThan(receipts.length);
});

test("a job that an open transaction has replaced is not fired before it ends", async () => {
  await using app = await startApplication();
  await enqueue(app, 1, { ...debounced, debounceMs: 1, debounceMaxMs: minute });
  // Past its longest wait: from the replacement on it is due.
  await app.pool.query(
    "update waybill.timer set fire_at = now() + interval '1 minute', enqueued_at = now() - interval '1 hour'",
  );
  const replaced = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const replacing = app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, anyJob, 2, { ...debounced, debounceMs: 1 });
    replaced.resolve();
    await release.promise;
  });
  await replaced.promise;

  expect(await fire(app)).toBe(0);
  release.resolve();
  await replacing;

  expect(await fire(app)).toBe(1);
  expect(await app.payloads()).toEqual(["2"]);
});

test("an enqueue that waits for the dispatch of the job it would replace becomes a new job", async () => {
  await using app = await startApplication();
  const first = await enqueue(app, 1);
  await intoBacklog(app);
  const dispatch = await app.pool.connect();
  await dispatch.query("begin");
  await dispatch.query("delete from waybill.backlog");

  const second = enqueue(app, 2);
  await eventually(async () => {
    const [row] = await app.db.rows<{ n: string }>(
      "select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return row?.n === "1";
  });
  await dispatch.query("commit");
  dispatch.release();

  const receipt = await second;
  expect(receipt.deduplicated).toBe(false);
  expect(receipt.jobId).not.toBe(first.jobId);
  expect(await app.payloads()).toEqual(["1"]);
  expect(await timers(app)).toMatchObject([{ id: receipt.jobId, payload: "2" }]);
});

test("a replacement that rolls back leaves the job as it was", async () => {
  await using app = await startApplication();
  await enqueue(app, 1);

  await expect(
    app.database.transaction(async (tx) => {
      await app.outbox.enqueue(tx, anyJob, 2, debounced);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");

  expect(await timers(app)).toMatchObject([{ payload: "1", waits: minute }]);
});

test("in a transaction of an older snapshot a job that has gone meanwhile is an error to run again", async () => {
  await using app = await startApplication();
  await enqueue(app, 1);

  const failing = app.database.transaction(async (tx) => {
    await tx.query("set transaction isolation level repeatable read");
    await tx.query("select 1 from orders");
    await app.pool.query("update waybill.timer set fire_at = now()");
    await fire(app);
    return app.outbox.enqueue(tx, anyJob, 2, debounced);
  });

  await expect(failing).rejects.toMatchObject({ code: "40001" });
  expect((await enqueue(app, 2)).deduplicated).toBe(false);
});
