import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { createPool, eventually, startProxy } from "../support/index.ts";
import { startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 5, initialDelayMs: 1, maxDelayMs: 1 } as const;
const job = defineJob({ name: "effect", queue: "work", payload, retry });

describe("E2, F4: while the worker's database is away", () => {
  test("nothing is acked and no attempt is spent, and everything is done when it is back", async () => {
    await using app = await startApp();
    await using proxy = await startProxy(app.database.url);
    await using running = await app.startWorker(
      (each) => each.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
      { databaseUrl: proxy.url(app.database.url) },
    );

    proxy.refuse();
    await app.send("effect", { n: 0 });
    await eventually(() => running.worker.status().database === "unavailable");
    for (let n = 0; n < 50; n += 1) await app.send("effect", { n });
    await eventually(() =>
      expect(running.worker.status().queues).toMatchObject([{ consumer: "paused", waiting: 0 }]),
    );
    expect(await app.database.rows("select from waybill.inbox where state = 'succeeded'")).toEqual(
      [],
    );
    proxy.pass();

    const rows = (): Promise<unknown[]> =>
      app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1 and crashes = 0",
      );
    await eventually(async () => {
      expect((await rows()).length).toBeGreaterThanOrEqual(50);
      expect(await app.courier.depth("waybill.work")).toBe(0);
      expect(
        await app.database.rows(
          "select from waybill.inbox where state <> 'succeeded' or attempt > 1",
        ),
      ).toEqual([]);
    });
    expect(await app.effects()).toBe((await rows()).length);
  });

  test("a failed attempt's record waits for it: one dead letter, and the delivery is not settled before", async () => {
    await using app = await startApp();
    await using proxy = await startProxy(app.database.url);
    const once = defineJob({ name: "once", queue: "work", payload, retry: { maxAttempts: 1 } });
    await using running = await app.startWorker(
      (each) =>
        each.handle(once, async () => {
          proxy.refuse();
          await Promise.resolve();
          throw new Error("the handler and the store for its failure, at once");
        }),
      { databaseUrl: proxy.url(app.database.url) },
    );
    const id = await app.send("once", { n: 1 });
    await eventually(() => running.worker.status().database === "unavailable");
    expect(await app.inbox(id)).toMatchObject({ state: "running" });
    proxy.pass();

    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "failed", attempt: 1, deaths: 1 }),
    );
    await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
    expect(await app.database.rows("select from waybill.dead_letter")).toHaveLength(1);
    expect(
      await app.database.rows("select from waybill.outbox where kind = 'dead_letter'"),
    ).toHaveLength(1);
  });
});

describe("E7: an answer that is lost after the server did the work", () => {
  test("of a claim: the job runs once", async () => {
    await using app = await startApp();
    await using proxy = await startProxy(app.database.url);
    await using _worker = await app.startWorker(
      (worker) => worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
      { databaseUrl: proxy.url(app.database.url) },
    );

    proxy.cutReply("claim_deliveries");
    const id = await app.send("effect", { n: 1 });

    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
    );
    expect(proxy.triggeredCount).toBe(1);
    expect(await app.effects(id)).toBe(1);
  });

  test("of a completion: the job has ended, once", async () => {
    await using app = await startApp();
    await using proxy = await startProxy(app.database.url);
    let runs = 0;
    await using running = await app.startWorker(
      (worker) => worker.handle(job, () => void (runs += 1)),
      { databaseUrl: proxy.url(app.database.url) },
    );

    proxy.cutReply("complete_jobs");
    const id = await app.send("effect", { n: 1 });

    await eventually(() => {
      expect(proxy.triggeredCount).toBe(1);
      expect(running.worker.status()).toMatchObject({
        database: "available",
        queues: [{ consumer: "consuming", running: 0, waiting: 0 }],
      });
    });
    await running.stop();
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 0 });
    // What was not acked is back.
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(runs).toBe(1);
  });

  test.each([
    ["lost after it", "cutReply", 1],
    ["lost before it", "cutBefore", 2],
  ] as const)(
    "of the handler's COMMIT, with the connection %s: the effect is there once",
    async (_when, fault, expectedRuns) => {
      await using app = await startApp();
      await using proxy = await startProxy(app.database.url);
      const pool = createPool(proxy.url(app.database.url), 20);
      await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
      let runs = 0;
      await using _worker = await app.startWorker(
        (worker) =>
          worker.handleInTransaction(job, async (context, tx) => {
            runs += 1;
            await writeEffect(tx, context);
            if (runs === 1) proxy[fault]("COMMIT");
          }),
        { database: pgDatabase(pool) },
      );

      const id = await app.send("effect", { n: 1 });

      await eventually(async () => {
        expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 0, attempt: 1 });
        expect(await app.courier.depth("waybill.work")).toBe(0);
      });
      expect(runs).toBe(expectedRuns);
      expect(await app.effects(id)).toBe(1);
      expect(await app.database.rows("select from waybill.failure")).toEqual([]);
    },
  );
});

test("E3: sessions that the server ends again and again, anywhere, end no process and lose no job", async () => {
  await using app = await startApp();
  const worker = await app.startWorkerProcess({ LEASE_MS: "3000" });
  app.courier.start({ hurry: true });
  const ids: string[] = [];
  for (let round = 0; round < 25; round += 1) {
    for (let n = 0; n < 8; n += 1)
      ids.push(await app.send(n % 2 === 0 ? "effect" : "plain", { n }));
    await app.database.rows(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and query not like '%fire_at%'
         and application_name like 'waybill-worker%' or (datname = current_database() and query like '%effect%' and pid <> pg_backend_pid())`,
    );
  }

  await eventually(
    async () => {
      const open = await app.database.rows(
        "select state, count(*)::int from waybill.inbox where state not in ('succeeded') group by state",
      );
      expect(open).toEqual([]);
      expect(await app.database.rows("select from waybill.inbox")).toHaveLength(ids.length);
    },
    { deadlineMs: 25_000 },
  );
  expect(worker.hasExited).toBe(false);
  const [doubled] = await app.database.rows<{ count: number }>(
    "select count(*)::int from (select job_id from effect join waybill.inbox on id = job_id where type = 'effect' group by job_id having count(*) > 1) as d",
  );
  expect(doubled).toEqual({ count: 0 });
  expect(await app.effects()).toBeGreaterThanOrEqual(ids.length);
}, 60_000);

test("E8: a connection pool that is exhausted spends no attempt", async () => {
  await using app = await startApp();
  const pool = createPool(app.database.url, 1);
  const holder = await pool.connect();
  // From now on nobody connects, one can only wait for the holder's connection.
  pool.options.connectionTimeoutMillis = 50;
  // Without a pool size, so that the start-up check does not see what is wrong.
  const database = { ...pgDatabase(pool), poolSize: undefined };
  await app.startWorker(
    (worker) => worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
    { database },
  );

  const id = await app.send("effect", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));
  await eventually(() => pool.waitingCount > 0);
  holder.release();

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1 }),
  );
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
  await app[Symbol.asyncDispose]();
  await pool.end();
});
