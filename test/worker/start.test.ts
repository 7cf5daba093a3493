import { randomBytes } from "node:crypto";
import {
  BrokerUnavailableError,
  ConfigError,
  DatabaseUnavailableError,
  defineEvent,
  defineJob,
  SchemaVersionError,
} from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { connect } from "amqplib";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { createPool, createTestDatabase, eventually } from "../support/index.ts";
import { startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "effect", queue: "work", payload });
const never = new AbortController().signal;

test("D7, H5: a queue that exists with other arguments is reported, and the other queues work", async () => {
  await using app = await startApp();
  const model = await connect(app.vhost.url);
  const channel = await model.createChannel();
  await channel.assertQueue("waybill.old", {
    durable: true,
    arguments: { "x-queue-type": "classic" },
  });
  await model.close();
  const errors: Record<string, unknown>[] = [];
  const quiet = (): void => undefined;
  const logger = {
    child: () => logger,
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (fields: object) => void errors.push({ ...fields }),
  };

  await app.startWorker(
    (worker) => worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
    { queues: { work: { concurrency: 5 }, old: { concurrency: 1 } }, logger },
  );
  const id = await app.send("effect", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(errors).toContainEqual(
    expect.objectContaining({
      kind: "queue",
      name: "waybill.old",
      status: "mismatch",
      detail: expect.stringContaining("x-dead-letter-exchange") as string,
    }),
  );
});

test("D6: a worker whose queue is deleted declares it again and consumes", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );
  const model = await connect(app.vhost.url);
  const channel = await model.createChannel();

  await channel.deleteQueue("waybill.work");

  // What is sent before the queue is there again is lost with it.
  const sent: string[] = [];
  const id = await eventually(async () => {
    sent.push(await app.send("effect", { n: 1 }));
    const [done] = await app.database.rows<{ id: string }>(
      "select id from waybill.inbox where state = 'succeeded' limit 1",
    );
    return done?.id ?? false;
  });
  await model.close();
  expect(sent).toContain(id);
  expect(await app.effects(id)).toBe(1);
});

test("D7: a worker that comes before its queue waits for it where it may not declare", async () => {
  await using app = await startApp();
  const { worker } = await app.startWorker((each) => each.handle(job, () => undefined), {
    topology: "check",
  });
  const late = createWorker<PoolClient>({
    database: app.dataLayer,
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, topology: "check" },
    queues: { late: { concurrency: 1 } },
    logger: { child: () => logger, debug: quiet, info: quiet, warn: quiet, error: quiet },
  });
  await using _late = late;
  const finished = late.run({ signal: never });
  finished.catch(() => undefined);

  await eventually(() =>
    expect(late.status().queues).toMatchObject([
      { consumer: "waiting", reason: expect.stringContaining("does not exist") as string },
    ]),
  );
  expect(worker.status().queues).toMatchObject([{ consumer: "consuming" }]);
});

const quiet = (): void => undefined;
const logger = { child: () => logger, debug: quiet, info: quiet, warn: quiet, error: quiet };

test("every problem of the options is reported at once, and no password", () => {
  const make = (): unknown =>
    createWorker({
      database: {} as never,
      databaseUrl: "mysql://user:secret@host/db",
      broker: { url: "http://user:secret@host", prefix: "Not A Prefix" },
      queues: { "Bad Name": { concurrency: 0 }, good: { concurrency: 5, decoder: "xml" as never } },
      graceMs: -1,
      unknown: true,
    } as never);

  expect(make).toThrow(ConfigError);
  const error = (() => {
    try {
      return make();
    } catch (thrown) {
      return thrown as ConfigError;
    }
  })() as ConfigError;
  expect(error.issues.map(({ path }) => path)).toEqual(
    expect.arrayContaining(["database", "databaseUrl", "broker.url", "broker.prefix", "graceMs"]),
  );
  expect(error.message).toContain("unknown");
  expect(error.message).not.toContain("secret");
});

test("E8: handlers, queues and pool that do not fit together are refused before anything is opened", async () => {
  await using database = await createTestDatabase();
  const pool = createPool(database.url, 3);
  const worker = createWorker({
    database: pgDatabase<PoolClient>(pool),
    databaseUrl: database.url,
    broker: { url: "amqp://127.0.0.1:1" },
    queues: { work: { concurrency: 5 }, shared: { concurrency: 1 } },
    logger,
  });
  worker.handleInTransaction(job, () => undefined);
  worker.handle(defineJob({ name: "elsewhere", queue: "missing", payload }), () => undefined);
  worker.handle(defineJob({ name: "clash", queue: "shared", payload }), () => undefined);
  worker.on(defineEvent({ name: "e", payload }), { subscription: "shared" }, () => undefined);

  const error = await worker.run({ signal: never }).catch((thrown: unknown) => thrown);
  await pool.end();

  expect(error).toBeInstanceOf(ConfigError);
  expect((error as ConfigError).message).toContain("queues.missing");
  expect((error as ConfigError).message).toContain("queues.shared");
  expect((error as ConfigError).message).toContain("pool has 3 connections");
});

test("a second handler for one job, or one that comes too late, is refused", async () => {
  await using app = await startApp();
  const { worker } = await app.startWorker((each) => {
    each.handle(job, () => undefined);
    expect(() => each.handle(job, () => undefined)).toThrow("effect");
  });

  expect(() =>
    worker.handle(defineJob({ name: "late", queue: "work", payload }), () => undefined),
  ).toThrow(ConfigError);
  await expect(worker.run({ signal: never })).rejects.toThrow(ConfigError);
});

test("a database without Waybill's tables, a wrong password and a wrong login at the broker end the start with the remedy", async () => {
  await using app = await startApp();
  await using empty = await createTestDatabase();
  const start = (databaseUrl: string, url = app.vhost.url): Promise<unknown> => {
    const worker = createWorker({
      database: app.dataLayer,
      databaseUrl,
      broker: { url },
      queues: { work: { concurrency: 1 } },
      logger,
    });
    worker.handle(job, () => undefined);
    return worker.run({ signal: never }).catch((error: unknown) => error);
  };
  const missing = new URL(app.database.url);
  missing.pathname = "/no_such_database";
  const wrong = new URL(app.vhost.url);
  wrong.password = "wrong";

  expect(await start(empty.url)).toBeInstanceOf(SchemaVersionError);
  expect(await start(missing.href)).toBeInstanceOf(DatabaseUnavailableError);
  expect(await start(app.database.url, wrong.href)).toBeInstanceOf(BrokerUnavailableError);
});

test("a login without the rights on Waybill's tables ends the start, and takes no message", async () => {
  await using app = await startApp();
  const role = `waybill_test_${randomBytes(6).toString("hex")}`;
  await app.database.pool.query(`create role ${role} login password 'p'`);
  await app.database.pool.query(`grant usage on schema waybill to ${role}`);
  await app.database.pool.query(`grant select on all tables in schema waybill to ${role}`);
  const url = new URL(app.database.url);
  url.username = role;
  url.password = "p";
  const worker = createWorker({
    database: app.dataLayer,
    databaseUrl: url.href,
    broker: { url: app.vhost.url },
    queues: { work: { concurrency: 1 } },
    logger,
  });
  worker.handle(job, () => undefined);
  await app.send("effect", { n: 1 });

  const error = await worker.run({ signal: never }).catch((thrown: unknown) => thrown);
  await app.database.pool.query(`drop owned by ${role}; drop role ${role}`);

  expect(String(error)).toContain("lacks a right on Waybill's schema");
  expect(await app.courier.depth("waybill.work")).toBe(1);
});

test("a worker that is stopped while it waits for the broker stops", async () => {
  await using app = await startApp();
  const stop = new AbortController();
  const worker = createWorker({
    database: app.dataLayer,
    databaseUrl: app.database.url,
    broker: { url: "amqp://127.0.0.1:1" },
    queues: { work: { concurrency: 1 } },
    logger,
  });
  worker.handle(job, () => undefined);
  const finished = worker.run({ signal: stop.signal });

  await eventually(() => worker.status().state === "running");
  stop.abort();
  await finished;

  expect(worker.status().state).toBe("stopped");
});
