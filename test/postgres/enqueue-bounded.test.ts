import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { defineJob, defineTerminalEvent, QueueFullError, type WaitingLimits } from "@waybill/core";
import { type EnqueueOptions, type EnqueueReceipt, statementsFor } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Application, anyJob, setInbox, startApplication } from "./application.ts";

/** Sets the maximum of waiting jobs of a queue, as defineQueue or an operator does. */
async function limit(app: Application, maxWaiting: WaitingLimits, queue = "tests"): Promise<void> {
  await app.pool.query("insert into waybill.queue (name, declared) values ($1, $2)", [
    queue,
    { maxWaiting },
  ]);
}

/** Enqueues in a transaction of its own. */
const enqueue = (
  app: Application,
  payload: unknown,
  options: EnqueueOptions = {},
): Promise<EnqueueReceipt> =>
  app.database.transaction((tx) => app.outbox.enqueue(tx, anyJob, payload, options));

/** Puts every job of the outbox into the backlog, as the relay does where nothing may start. */
const intoBacklog = (app: Application): Promise<unknown> =>
  app.pool.query(
    `insert into waybill.backlog (id, queue, place, key, type, enqueued_at)
     select o.id, o.queue, o.seq, coalesce(o.headers ->> 'waybill-concurrency-key', ''), o.type, o.enqueued_at
     from waybill.outbox as o
     where o.kind = 'job'
     on conflict do nothing`,
  );

const stateOf = async (app: Application, receipt: EnqueueReceipt): Promise<string> =>
  (await app.jobs.get(receipt.jobId)).state;

const statesOf = (app: Application, receipts: readonly EnqueueReceipt[]): Promise<string[]> =>
  Promise.all(receipts.map((receipt) => stateOf(app, receipt)));

test("a full queue refuses the next job with its name and maximum, and nothing of the transaction is kept", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 2 });
  await enqueue(app, 1);
  await enqueue(app, 2, { delayMs: 60_000 });

  const refused = app.database.transaction(async (tx) => {
    await tx.query("insert into orders (note) values ('a')");
    await app.outbox.enqueue(tx, anyJob, 3);
  });

  await expect(refused).rejects.toBeInstanceOf(QueueFullError);
  await expect(refused).rejects.toMatchObject({
    code: "WAYBILL_QUEUE_FULL",
    queue: "tests",
    key: undefined,
    max: 2,
    cause: { code: "WB001" },
  });
  await expect(refused).rejects.toThrow(
    'Cannot enqueue into queue "tests": 2 jobs wait in it, which is its maximum. Roll back and try again later',
  );
  expect(await app.payloads()).toEqual(["1"]);
  expect(await app.count("orders")).toBe(0);
  expect(await app.count("waybill.waiting")).toBe(2);
});

test("after a refusal the transaction goes on from a savepoint, and from nowhere else", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 1 });
  await enqueue(app, 1);

  await app.database.transaction(async (tx) => {
    await tx.query("savepoint before");
    await expect(app.outbox.enqueue(tx, anyJob, 2)).rejects.toBeInstanceOf(QueueFullError);
    await expect(tx.query("select 1")).rejects.toMatchObject({ code: "25P02" });
    await tx.query("rollback to savepoint before");
    await tx.query("insert into orders (note) values ('a')");
  });

  expect(await app.count("orders")).toBe(1);
  expect(await app.payloads()).toEqual(["1"]);
});

test("a full key is refused by name, while other keys and jobs without a key have room", async () => {
  await using app = await startApplication();
  await limit(app, { perKey: 1 });
  const name = 'it\'s "quoted", a \\ and {"max": 9}🚚';
  await enqueue(app, 1, { concurrencyKey: name });

  const refused = enqueue(app, 2, { concurrencyKey: name });

  await expect(refused).rejects.toMatchObject({ queue: "tests", key: name, max: 1 });
  await expect(refused).rejects.toThrow(/1 jobs of key "it's .* wait in it/);
  await enqueue(app, 3, { concurrencyKey: "other" });
  await enqueue(app, 4);
  await enqueue(app, 5);
  expect(await app.payloads()).toEqual(["1", "3", "4", "5"]);
});

test("only new jobs of the queue count: not deduplicated ones, events, routes or those of other queues", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 2 });
  const elsewhere = defineJob({ name: "test.else", queue: "elsewhere", payload: z.unknown() });
  const once = { idempotencyKey: "k" };
  const soon = { idempotencyKey: "d", debounceMs: 60_000 };

  await enqueue(app, 1, once);
  await enqueue(app, 2, soon);
  await enqueue(app, 3, once);
  await enqueue(app, 4, soon);
  await enqueue(app, 5, { route: { exchange: "e", routingKey: "k" } });
  await app.database.transaction((tx) => app.outbox.enqueue(tx, elsewhere, 6));

  expect(await app.count("waybill.waiting")).toBe(2);
  await expect(enqueue(app, 7)).rejects.toBeInstanceOf(QueueFullError);
  expect(await app.payloads()).toEqual(["1", "5", "6"]);
});

test("a bulk that does not fit is refused as a whole", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 3 });
  await enqueue(app, 1);
  const items = [2, 3, 4].map((payload) => ({ payload }));

  await expect(
    app.database.transaction((tx) => app.outbox.enqueueMany(tx, anyJob, items)),
  ).rejects.toMatchObject({ max: 3 });
  await app.database.transaction((tx) => app.outbox.enqueueMany(tx, anyJob, items.slice(1)));

  expect(await app.payloads()).toEqual(["1", "3", "4"]);
});

test("callers at the same time never enqueue more than the maximum, and a rollback gives its place back", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 10 });

  const outcomes = await Promise.allSettled(
    Array.from({ length: 40 }, (_, n) =>
      app.database.transaction(async (tx) => {
        await app.outbox.enqueue(tx, anyJob, n);
        await tx.query("select 1");
        if (n < 10) throw new Error("no");
      }),
    ),
  );

  const done = outcomes.filter(({ status }) => status === "fulfilled");
  const refused = outcomes.filter(
    (outcome) => outcome.status === "rejected" && outcome.reason instanceof QueueFullError,
  );
  expect(done).toHaveLength(10);
  expect(refused.length).toBeGreaterThanOrEqual(20);
  expect(await app.count("waybill.outbox")).toBe(10);
  expect(await app.count("waybill.waiting")).toBe(10);
});

test("bulk enqueues into several full queues in any order do not deadlock", async () => {
  await using app = await startApplication();
  const queues = ["a", "b", "c", "d"];
  for (const queue of queues) await limit(app, { jobs: 5, whenFull: "drop_oldest" }, queue);
  const bulk = (names: readonly string[]): string =>
    JSON.stringify(names.map((queue) => ({ type: "t", queue, payload: 1 })));

  await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      app.database.transaction(async (tx) => {
        const jobs = bulk(n % 2 === 0 ? queues : queues.toReversed());
        await tx.query("select * from waybill.enqueue($1::jsonb)", [jobs]);
      }),
    ),
  );

  const left = await app.db.rows(
    "select queue, count(*)::int as n from waybill.waiting group by 1",
  );
  expect(left).toHaveLength(4);
  expect(left.every((row) => row["n"] === 5)).toBe(true);
  expect(await app.count("waybill.inbox where state = 'cancelled'")).toBe(140);
});

test("a full queue that drops its oldest cancels the job that has waited longest, wherever it waits", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 3, whenFull: "drop_oldest" });
  const delayed = await enqueue(app, 1, { delayMs: 60_000 });
  const waiting = await enqueue(app, 2);
  await intoBacklog(app);
  const unread = await enqueue(app, 3);

  const later: EnqueueReceipt[] = [];
  const states: string[][] = [];
  for (const n of [4, 5, 6]) {
    later.push(await enqueue(app, n));
    states.push(await statesOf(app, [delayed, waiting, unread]));
  }

  expect(states).toEqual([
    ["cancelled", "queued", "queued"],
    ["cancelled", "cancelled", "queued"],
    ["cancelled", "cancelled", "cancelled"],
  ]);
  expect(await statesOf(app, later)).toEqual(["queued", "queued", "queued"]);
  expect(await app.count("waybill.timer")).toBe(0);
  expect(await app.count("waybill.backlog")).toBe(0);
  expect(await app.count("waybill.waiting")).toBe(3);
  const dropped = [delayed, waiting, unread].map(({ jobId }) => jobId);
  expect(
    await app.db.rows(
      "select actor, action, id::text as id, queue, detail from waybill.audit_log order by audit_id",
    ),
  ).toEqual(
    dropped.map((id) => ({
      actor: "waybill",
      action: "drop",
      id,
      queue: "tests",
      detail: "the queue was full: at most 3 jobs may wait",
    })),
  );
  const news = await app.db.rows<{ changed: string[] }>(
    "select changed::text[] as changed from waybill.freed order by n",
  );
  expect(news.flatMap(({ changed }) => changed)).toEqual(dropped);
});

test("a full key drops its own oldest job and no other's", async () => {
  await using app = await startApplication();
  await limit(app, { perKey: 1, jobs: 3, whenFull: "drop_oldest" });
  const other = await enqueue(app, 1, { concurrencyKey: "other" });
  const first = await enqueue(app, 2, { concurrencyKey: "acme" });

  const second = await enqueue(app, 3, { concurrencyKey: "acme" });

  expect(await statesOf(app, [other, first, second])).toEqual(["queued", "cancelled", "queued"]);
  const [entry] = await app.db.rows("select detail from waybill.audit_log");
  expect(entry).toEqual({
    detail: 'the queue was full: at most 1 jobs of key "acme" may wait',
  });
});

test("a bulk of more jobs than the queue may hold keeps its last ones", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 2, whenFull: "drop_oldest" });

  const receipts = await app.database.transaction((tx) =>
    app.outbox.enqueueMany(
      tx,
      anyJob,
      [1, 2, 3, 4].map((payload) => ({ payload })),
    ),
  );

  expect(await statesOf(app, receipts)).toEqual(["cancelled", "cancelled", "queued", "queued"]);
  expect(await app.count("waybill.waiting")).toBe(2);
});

test("a dropped job tells its end, says why, and frees its key", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 1, whenFull: "drop_oldest" });
  const options = {
    idempotencyKey: "k",
    idempotencyMode: "until_end",
    onTerminal: defineTerminalEvent("test.ended"),
  } as const;
  const first = await enqueue(app, 1, options);

  await enqueue(app, 2);
  const again = await enqueue(app, 3, options);

  const why = "the queue was full: at most 1 jobs may wait";
  const job = await app.jobs.get(first.jobId);
  expect(job).toMatchObject({ state: "cancelled", cancelledBy: "waybill", cancelReason: why });
  const [event] = await app.db.rows<{ payload: string }>(
    "select payload from waybill.outbox where kind = 'event'",
  );
  expect(JSON.parse(event?.payload ?? "{}")).toMatchObject({
    jobId: first.jobId,
    state: "cancelled",
    cancelledBy: "waybill",
    cancelReason: why,
  });
  expect(again.deduplicated).toBe(false);
});

test("a job that has started, or that another transaction dispatches, is not dropped", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 3, whenFull: "drop_oldest" });
  const started = await enqueue(app, 1);
  const dispatched = await enqueue(app, 2);
  const third = await enqueue(app, 3);
  await intoBacklog(app);
  await setInbox(app, started.jobId, "running");
  const relay = await app.pool.connect();
  await relay.query("begin");
  await relay.query("delete from waybill.backlog where id = $1", [dispatched.jobId]);

  // What has started does not count, so there is room for one.
  const fourth = await enqueue(app, 4);
  const fifth = await enqueue(app, 5);
  await relay.query("commit");
  relay.release();

  expect(await statesOf(app, [started, dispatched, third, fourth, fifth])).toEqual([
    "running",
    "queued",
    "cancelled",
    "queued",
    "queued",
  ]);
});

test("callers at the same time drop as many as they bring, and never wait for each other for ever", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 5, perKey: 2, whenFull: "drop_oldest" });

  const receipts = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      app.database.transaction(async (tx) => {
        const receipt = await app.outbox.enqueue(tx, anyJob, n, { concurrencyKey: `k${n % 4}` });
        await tx.query("select 1");
        return receipt;
      }),
    ),
  );

  const states = await statesOf(app, receipts);
  expect(states.filter((state) => state === "queued")).toHaveLength(5);
  expect(states.filter((state) => state === "cancelled")).toHaveLength(35);
  expect(await app.count("waybill.audit_log where action = 'drop'")).toBe(35);
  const keys = await app.db.rows<{ n: number }>(
    "select count(*)::int as n from waybill.waiting group by key",
  );
  expect(keys.every(({ n }) => n <= 2)).toBe(true);
});

test("a drop whose transaction rolls back has dropped nothing", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 1, whenFull: "drop_oldest" });
  const first = await enqueue(app, 1);

  await expect(
    app.database.transaction(async (tx) => {
      await app.outbox.enqueue(tx, anyJob, 2);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");

  expect(await stateOf(app, first)).toBe("queued");
  expect(await app.count("waybill.waiting")).toBe(1);
});

test("each refusal is told on the diagnostics channel", async () => {
  await using app = await startApplication();
  await limit(app, { perKey: 1 }, "told");
  const told = defineJob({ name: "test.told", queue: "told", payload: z.unknown() });
  const messages: unknown[] = [];
  const listener = (message: unknown): void => {
    messages.push(message);
  };
  subscribe("waybill:enqueue:refused", listener);
  const run = (): Promise<EnqueueReceipt> =>
    app.database.transaction((tx) => app.outbox.enqueue(tx, told, 1, { concurrencyKey: "acme" }));

  await run();
  await expect(run()).rejects.toBeInstanceOf(QueueFullError);
  unsubscribe("waybill:enqueue:refused", listener);

  expect(messages).toEqual([{ queue: "told", key: "acme", max: 1 }]);
});

test("the pruner forgets waiting jobs that were claimed, or whose queue has no maximum any more", async () => {
  await using app = await startApplication();
  await limit(app, { jobs: 10 });
  await limit(app, { jobs: 10 }, "elsewhere");
  const elsewhere = defineJob({ name: "test.else", queue: "elsewhere", payload: z.unknown() });
  const claimed = await enqueue(app, 1);
  const waiting = await enqueue(app, 2);
  await app.database.transaction((tx) => app.outbox.enqueue(tx, elsewhere, 3));
  await setInbox(app, claimed.jobId, "running");
  await app.pool.query("update waybill.queue set declared = '{}' where name = 'elsewhere'");

  const { rowCount } = await app.pool.query(statementsFor().prune_waiting.text, [100]);

  expect(rowCount).toBe(2);
  expect(await app.db.rows("select id::text as id from waybill.waiting")).toEqual([
    { id: waiting.jobId },
  ]);
});
