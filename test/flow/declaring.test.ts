import {
  ConfigError,
  defineDependency,
  defineJob,
  defineQueue,
  type Logger,
  silentLogger,
} from "@waybill/core";
import { createFlowStore } from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import { expect, test } from "vitest";
import { z } from "zod";
import { FlowView } from "../../packages/worker/src/flow.ts";
import { createMigratedDatabase, eventually } from "../support/index.ts";
import { type App, startApp } from "../worker/support/start-app.ts";

const plain = defineJob({ name: "plain", queue: "work", payload: z.looseObject({}) });
const revisionOf = async ({ database }: App): Promise<unknown> =>
  (await database.rows("select revision from waybill.flow"))[0]?.["revision"];
const queuesOf = ({ database }: App): Promise<unknown> =>
  database.rows("select name, declared, settings, governed from waybill.queue order by name");

test("a worker writes its definitions at its start, and an operator's settings win", async () => {
  await using app = await startApp();
  await app.database.rows(
    `insert into waybill.queue (name, overrides) values ('work', '{"concurrency": 3}')`,
  );
  const define = defineQueue({ name: "work", concurrency: 8 });
  // It hands out shares of the limit.
  await app.startRelayProcess();

  await app.startWorker((worker) => worker.handle(plain, () => undefined), {
    queues: { work: { concurrency: 2, define }, free: { concurrency: 1 } },
  });

  expect(await queuesOf(app)).toEqual([
    { name: "work", declared: { concurrency: 8 }, settings: { concurrency: 3 }, governed: false },
  ]);
});

test("a worker that declares what is declared already changes nothing", async () => {
  await using app = await startApp();
  const start = (): ReturnType<App["startWorker"]> =>
    app.startWorker((worker) => worker.handle(plain, () => undefined), {
      queues: {
        work: { concurrency: 2, define: defineQueue({ name: "work", priority: { agingMs: 500 } }) },
      },
    });
  await (await start()).stop();
  const before = await revisionOf(app);

  await (await start()).stop();

  expect(await revisionOf(app)).toBe(before);
});

test("what jobs depend on makes their queue a governed one", async () => {
  await using app = await startApp();
  const job = defineJob({
    name: "pay",
    queue: "work",
    payload: z.looseObject({}),
    dependsOn: ["payments"],
  });

  await app.startWorker((worker) => worker.handle(job, () => undefined), {
    dependencies: [defineDependency({ name: "payments" })],
  });

  expect(await queuesOf(app)).toMatchObject([
    { name: "work", declared: { types: { pay: { dependsOn: ["payments"] } } }, governed: true },
  ]);
});

test("a definition that is given to another queue is refused", () => {
  const options = {
    database: { transaction: () => undefined, executor: () => undefined },
    databaseUrl: "postgres://localhost/none",
    broker: { url: "amqp://localhost" },
    queues: { work: { concurrency: 1, define: defineQueue({ name: "mail", concurrency: 1 }) } },
    logger: silentLogger,
  };

  expect(() => createWorker(options as never)).toThrow(ConfigError);
  expect(() => createWorker(options as never)).toThrow(/queues\.work\.define.*"mail"/s);
});

test("a governed queue in whose database no relay leads is told of once, with what to do", async () => {
  await using database = await createMigratedDatabase();
  await database.rows(
    `insert into waybill.queue (name, declared) values ('work', '{"priority": {}}')`,
  );
  const errors: unknown[][] = [];
  const logger: Logger = { ...silentLogger, error: (...line) => void errors.push(line) };
  const view = new FlowView({
    store: createFlowStore(database.pool),
    queues: ["work"],
    bootId: () => undefined,
    logger,
    onLook: () => undefined,
    onShares: () => Promise.resolve(false),
  });

  view.start();
  await eventually(() => errors.length > 0);
  await eventually(() => view.governs("work"));
  await view.look();
  await view.stop();

  expect(errors).toEqual([
    [
      { queue: "work" },
      expect.stringMatching(/no relay has led.*works in another database: start/),
    ],
  ]);
});
