/** What workers tell of the dependencies of their jobs. */

import { ConfigError, defineDependency, defineJob, NonRetryableError } from "@waybill/core";
import {
  createDependencies,
  createJobs,
  type DependencyRecord,
  pgDatabase,
} from "@waybill/postgres";
import { createWorker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, untilAborted } from "../worker/support/start-app.ts";

const paymentsApi = defineDependency({ name: "payments-api", windowMs: 600_000 });
const ledger = defineDependency({ name: "ledger", classes: ["validation"], windowMs: 600_000 });
const dependencies = [paymentsApi, ledger];

const charge = defineJob({
  name: "charge",
  queue: "work",
  payload: z.enum(["fine", "refused", "invalid"]),
  retry: { maxAttempts: 1 },
  dependsOn: ["payments-api", "ledger"],
});
const note = defineJob({ name: "note", queue: "work", payload: z.unknown() });

const listed = (app: App): Promise<readonly DependencyRecord[]> =>
  createDependencies({ database: pgDatabase(app.database.pool) }).list();

const counts = async (app: App): Promise<Record<string, DependencyRecord["counted"]>> =>
  Object.fromEntries((await listed(app)).map(({ name, counted }) => [name, counted]));

/** What a client of a payment provider throws. */
function act(how: "fine" | "refused" | "invalid"): void {
  if (how === "refused") throw Object.assign(new Error("no answer"), { code: "ECONNREFUSED" });
  if (how === "invalid") throw new NonRetryableError("no such account");
}

test("a worker declares its dependencies at its start, and tells how the attempts that need them have ended", async () => {
  await using app = await startApp();
  await app.startRelayProcess();
  const running = await app.startWorker(
    (worker) => {
      worker.handle(charge, ({ payload }) => act(payload));
      worker.handleInTransaction(note, () => undefined);
    },
    { dependencies },
  );
  expect((await listed(app)).map(({ name, settings }) => [name, settings])).toEqual([
    ["ledger", ledger.settings],
    ["payments-api", paymentsApi.settings],
  ]);

  const payloads = ["fine", "fine", "refused", "refused", "refused", "invalid"];
  for (const payload of payloads) await app.enqueue("charge", payload);
  await app.enqueue("note", 1);

  await eventually(async () => {
    const { succeeded = 0, failed = 0 } = (await counts(app))["payments-api"] ?? {};
    return succeeded + failed === payloads.length;
  });
  expect(await counts(app)).toEqual({
    // What is invalid was answered; for the ledger it is the other way round.
    "payments-api": { succeeded: 3, failed: 3 },
    ledger: { succeeded: 5, failed: 1 },
  });
  await running.stop();
});

test("the last outcomes of a worker are told before it has stopped", async () => {
  await using app = await startApp();
  await app.startRelayProcess();
  const release = Promise.withResolvers<void>();
  const running = await app.startWorker((worker) => worker.handle(charge, () => release.promise), {
    dependencies,
  });
  for (let n = 0; n < 10; n += 1) await app.enqueue("charge", "fine");
  await eventually(() => running.worker.status().running === 10);

  const stopping = running.stop();
  release.resolve();
  await stopping;

  expect((await counts(app))["payments-api"]).toEqual({ succeeded: 10, failed: 0 });
});

test("attempts that are handed back or cancelled tell nothing of a dependency", async () => {
  await using app = await startApp();
  await app.startRelayProcess();
  const running = await app.startWorker(
    (worker) =>
      worker.handle(charge, async ({ signal }) => {
        await untilAborted(signal);
        throw signal.reason;
      }),
    { dependencies, graceMs: 0 },
  );
  const cancelled = await app.enqueue("charge", "fine");
  await app.enqueue("charge", "fine");
  await eventually(() => running.worker.status().running === 2);
  await createJobs({ database: app.dataLayer }).cancel(cancelled);
  await eventually(async () => (await app.inbox(cancelled))?.state === "cancelled");

  await running.stop();

  expect(await counts(app)).toEqual({
    "payments-api": { succeeded: 0, failed: 0 },
    ledger: { succeeded: 0, failed: 0 },
  });
});

test("a worker whose outcomes cannot be written runs its jobs as ever", async () => {
  await using app = await startApp();
  await app.startRelayProcess();
  await app.startWorker((worker) => worker.handle(charge, () => undefined), { dependencies });
  await app.database.rows("alter table waybill.dependency_outcome rename to gone");

  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.push(await app.enqueue("charge", "fine"));

  await eventually(async () => {
    const entries = await Promise.all(ids.map((id) => app.inbox(id)));
    expect(entries.map((entry) => entry?.state)).toEqual(ids.map(() => "succeeded"));
  });
});

test("a worker refuses to start with a job whose dependency it does not know", async () => {
  await using app = await startApp();
  const start = (given: Parameters<typeof createWorker>[0]["dependencies"]): Promise<void> => {
    const worker = createWorker<PoolClient>({
      database: app.dataLayer,
      databaseUrl: app.database.url,
      broker: { url: app.vhost.url, prefix: app.vhost.prefix },
      queues: { work: { concurrency: 1 } },
      dependencies: given,
    });
    worker.handle(charge, () => undefined);
    return worker.run({ signal: AbortSignal.timeout(20_000) });
  };

  await expect(start([ledger])).rejects.toThrow(
    /dependencies: "payments-api" is not among them, and is a dependency of job "charge"; there are ledger/,
  );
  await expect(start(undefined)).rejects.toThrow(/"ledger" is not among them.*there are none/);
  await expect(start(undefined)).rejects.toBeInstanceOf(ConfigError);
  await expect(async () => start([ledger, ledger])).rejects.toThrow(/names a dependency twice/);
  await expect(async () => start([{ name: "ledger" } as never])).rejects.toThrow(
    /expected a dependency made by defineDependency/,
  );
  expect(await listed(app)).toEqual([]);
});
