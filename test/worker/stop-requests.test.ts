import { ConfigError, defineJob, LeaseLostError } from "@waybill/core";
import { createWorkers, pgDatabase, type Workers } from "@waybill/postgres";
import { createWorker, type WorkerOptions } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { testLogger } from "./support/app-parts.ts";
import { type App, startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const job = defineJob({ name: "effect", queue: "work", payload: z.object({ n: z.int() }) });

const workersOf = (app: App): Workers<PoolClient> =>
  createWorkers({ database: pgDatabase(app.database.pool), actor: "ada" });

const presence = (app: App): Promise<unknown[]> =>
  app.database.rows("select name, state, running from waybill.worker order by name");

test("a worker that is asked to drain takes no more jobs, finishes what runs, and stays", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const running = await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        await writeEffect(tx, context);
        await finish;
      }),
    { name: "one", queues: { work: { concurrency: 1 } }, leaseMs: 1_500 },
  );
  const first = await app.send("effect", { n: 1 });
  await eventually(async () => expect(await app.inbox(first)).toMatchObject({ state: "running" }));
  await app.send("effect", { n: 2 });

  await workersOf(app).drain({ workers: ["one"] });

  await eventually(() => running.worker.status().draining);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(1));
  goOn();
  await eventually(async () =>
    expect(await presence(app)).toEqual([{ name: "one", state: "draining", running: 0 }]),
  );
  expect(await app.inbox(first)).toMatchObject({ state: "succeeded", attempt: 1 });
  expect(running.worker.status()).toMatchObject({ state: "running", running: 0 });
  expect(await app.courier.depth("waybill.work")).toBe(1);
});

test("a worker that is asked to restart finishes what runs, and its run ends", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const running = await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        await writeEffect(tx, context);
        await finish;
      }),
    { name: "two" },
  );
  const id = await app.send("effect", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await workersOf(app).restart({ workers: ["two"] });
  await eventually(() => running.worker.status().draining);
  expect(running.worker.status().state).toBe("running");
  goOn();

  await eventually(() => running.worker.status().state === "stopped");
  await running.stop();
  expect(await app.effects(id)).toBe(1);
  expect(await presence(app)).toEqual([]);
});

test("a worker that has done its number of jobs ends by itself, and what is left runs elsewhere", async () => {
  await using app = await startApp();
  const register: Parameters<App["startWorker"]>[0] = (worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context));
  const running = await app.startWorker(register, {
    queues: { work: { concurrency: 2 } },
    recycle: { maxJobs: 3 },
  });
  for (let n = 0; n < 50; n += 1) await app.send("effect", { n });

  await eventually(() => running.worker.status().state === "stopped");

  await running.stop();
  expect(await app.effects()).toBeGreaterThanOrEqual(3);
  await app.startWorker(register);
  await eventually(async () => expect(await app.effects()).toBe(50));
  expect(
    await app.database.rows("select from waybill.inbox where attempt <> 1 or crashes <> 0"),
  ).toEqual([]);
});

test("H3: the second signal ends the grace: what runs is handed back at once, and no attempt is spent", async () => {
  await using app = await startApp();
  const worker = createWorker<PoolClient>({
    database: app.dataLayer,
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, prefix: app.vhost.prefix },
    queues: { work: { concurrency: 1 } },
    graceMs: 3_600_000,
    logger: testLogger,
  });
  worker.handle(job, async ({ signal }) => {
    await untilAborted(signal);
    signal.throwIfAborted();
  });
  const stop = new AbortController();
  const hurry = new AbortController();
  const finished = worker.run({ signal: stop.signal, hurrySignal: hurry.signal });
  const id = await app.send("effect", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));
  stop.abort();
  await eventually(() => worker.status().draining);
  expect(await app.inbox(id)).toMatchObject({ state: "running" });

  hurry.abort();
  await finished;

  expect(await app.inbox(id)).toMatchObject({ state: "retry_waiting", attempt: 0, owner: null });
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
});

test("a handler hears within a moment that another attempt owns its job, and its late result counts nothing", async () => {
  await using app = await startApp();
  const reasons: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(job, async ({ signal }) => {
      if (reasons.length > 0) return;
      await untilAborted(signal);
      reasons.push(signal.reason);
    }),
  );
  const id = await app.send("effect", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await app.database.pool.query(
    "update waybill.inbox set token = token + 1, owner = gen_random_uuid() where id = $1",
    [id],
  );

  await eventually(() => expect(reasons).toEqual([expect.any(LeaseLostError)]));
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 }),
  );
});

test("times that contradict each other are refused at the start, all at once", async () => {
  const options = {
    database: { transaction: () => Promise.reject(new Error("none")), executor: () => ({}) },
    databaseUrl: "postgres://localhost/none",
    broker: { url: "amqp://localhost" },
    queues: { work: { concurrency: 1 } },
    leaseMs: 100_000,
    heartbeatMs: 50_000,
    consumerTimeoutMs: 60_000,
    holdMs: 60_000,
    graceMs: 120_000,
    blockedWarnMs: 5_000,
    blockedMaxMs: 4_000,
    recycle: { maxAgeMs: 60_000 },
  } as unknown as WorkerOptions<PoolClient>;
  let found: unknown;

  try {
    createWorker(options);
  } catch (error) {
    found = error;
  }

  expect(found).toBeInstanceOf(ConfigError);
  expect((found as ConfigError).issues.map(({ path }) => path).toSorted()).toEqual([
    "blockedMaxMs",
    "blockedMaxMs",
    "heartbeatMs",
    "holdMs",
    "leaseMs",
    "recycle.maxAgeMs",
  ]);
  expect(() =>
    defineJob({ name: "x", payload: z.object({}), timeoutMs: 10_000, hardTimeoutMs: 5_000 }),
  ).toThrow(/hardTimeoutMs/);
});
