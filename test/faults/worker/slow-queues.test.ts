import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../../support/index.ts";
import type { TakenMessage } from "../../worker/support/courier.ts";
import { type App, startApp, writeEffect } from "../../worker/support/start-app.ts";

const payload = z.object({ n: z.int() });
const long = defineJob({ name: "long", queue: "work", payload, timeoutMs: 0 });
const quick = defineJob({ name: "quick", queue: "work", payload });

/** Jobs "long" that end one by one, in the order of their starts. */
class LongJobs {
  readonly #ends: (() => void)[] = [];
  started = 0;

  readonly register = (worker: Worker<PoolClient>): void => {
    worker.handle(long, async (job) => {
      this.started += 1;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#ends.push(resolve);
      await promise;
      await job.transaction((tx) => writeEffect(tx, job));
    });
    worker.handleInTransaction(quick, (job, tx) => writeEffect(tx, job));
  };

  endOne(): void {
    this.#ends.shift()?.();
  }

  endAll(): void {
    for (const end of this.#ends.splice(0)) end();
  }
}

/** A short hold, so that "long" comes soon. */
const settings = { queues: { work: { concurrency: 2 } }, holdMs: 1_000 };

async function occupy(app: App, jobs: LongJobs, slots: number): Promise<void> {
  const before = jobs.started;
  for (let n = 0; n < slots; n += 1) await app.send("long", { n });
  await eventually(() => jobs.started === before + slots);
}

async function sendQuick(app: App, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await app.send("quick", { n });
}

const succeeded = async (app: App, type: string): Promise<number> => {
  const rows = await app.database.rows(
    "select from waybill.inbox where type = $1 and state = 'succeeded' and attempt = 1 and crashes = 0",
    [type],
  );
  return rows.length;
};

/** Resolves when the database's clock says that the newest long job has been running for so long. */
async function untilRunningFor(app: App, seconds: number): Promise<void> {
  await eventually(
    async () => {
      const [row] = await app.database.rows<{ over: boolean }>(
        "select clock_timestamp() > max(started_at) + $1 * interval '1 second' as over from waybill.inbox where type = 'long'",
        [seconds],
      );
      return row?.over;
    },
    { deadlineMs: (seconds + 30) * 1_000, intervalMs: 200 },
  );
}

/** Takes everything off the queue. */
async function takeAll(app: App): Promise<readonly TakenMessage[]> {
  const taken: TakenMessage[] = [];
  for (;;) {
    const message = await app.courier.take("waybill.work");
    if (message === undefined) return taken;
    taken.push(message);
  }
}

/** How often each message had been delivered before. */
const deliveryCounts = (messages: readonly TakenMessage[]): readonly number[] =>
  messages.map(({ headers }) => Number(headers["x-delivery-count"] ?? 0));

test("D8: what waits behind long jobs is not held: an idle worker gets all of it, and the first goes on when a slot is free", async () => {
  await using app = await startApp();
  const jobs = new LongJobs();
  const first = await app.startWorker(jobs.register, settings);
  await occupy(app, jobs, 2);
  await sendQuick(app, 30);

  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(30));
  expect(first.worker.status().queues).toMatchObject([{ running: 2, waiting: 0 }]);
  const second = await app.startWorker(jobs.register);
  await eventually(async () => expect(await succeeded(app, "quick")).toBe(30));
  expect(first.worker.status()).toMatchObject({ running: 2, finishedJobs: 0 });
  await second.stop();

  await sendQuick(app, 10);
  jobs.endOne();
  await eventually(async () => expect(await succeeded(app, "quick")).toBe(40));
  expect(first.worker.status()).toMatchObject({ running: 1, finishedJobs: 11 });
  jobs.endAll();
  await eventually(async () => expect(await succeeded(app, "long")).toBe(2));
  expect(await app.effects()).toBe(42);
});

test("however long two full workers are busy, what waits in their queue is given back a few times only", async () => {
  await using app = await startApp();
  const jobs = new LongJobs();
  const full = { ...settings, queues: { work: { concurrency: 3 } } };
  const workers = [await app.startWorker(jobs.register, full)];
  workers.push(await app.startWorker(jobs.register, full));
  for (let n = 0; n < 24; n += 1) await app.send("long", { n });
  await eventually(() => jobs.started === 6);

  // Slots become free two at a time, and are taken by jobs that are as long.
  for (let round = 1; round <= 5; round += 1) {
    await untilRunningFor(app, 1.5);
    jobs.endOne();
    jobs.endOne();
    await eventually(() => jobs.started === 6 + 2 * round);
  }
  await untilRunningFor(app, 15);

  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(8));
  for (const { worker } of workers) {
    expect(worker.status().queues).toMatchObject([{ running: 3, waiting: 0 }]);
  }
  const counts = deliveryCounts(await takeAll(app));
  expect(counts).toHaveLength(8);
  expect(Math.max(...counts)).toBeLessThanOrEqual(3);
  jobs.endAll();
  await eventually(async () => expect(await succeeded(app, "long")).toBe(16));
  expect(await app.effects()).toBe(16);
});
