import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, untilAborted } from "../worker/support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "index", queue: "work", payload });
const other = defineJob({ name: "other", queue: "work", payload });

async function sendAll(app: App, count: number, name = "index"): Promise<void> {
  for (let n = 0; n < count; n += 1) await app.send(name, { n });
}

async function allSucceed(app: App, count: number): Promise<void> {
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1 and crashes = 0",
      ),
    ).toHaveLength(count),
  );
}

test("a batch has no more jobs than it may have, and a backlog fills it", async () => {
  await using app = await startApp();
  await sendAll(app, 25);
  const sizes: number[] = [];
  await app.startWorker(
    (worker) =>
      worker.handleBatch(job, { maxJobs: 10, maxWaitMs: 500 }, (jobs) => {
        sizes.push(jobs.length);
      }),
    { queues: { work: { concurrency: 40 } } },
  );

  await allSucceed(app, 25);

  expect(sizes).toEqual([10, 10, 5]);
});

test("a batch starts at once when all slots of its queue are taken, and the queue's concurrency holds", async () => {
  await using app = await startApp();
  await sendAll(app, 20);
  const sizes: number[] = [];
  let running = 0;
  let most = 0;
  await app.startWorker(
    (worker) =>
      worker.handleBatch(job, { maxWaitMs: 60_000 }, async (jobs) => {
        sizes.push(jobs.length);
        running += jobs.length;
        most = Math.max(most, running);
        for (const each of jobs) await each.transaction((tx) => tx.query("select pg_sleep(0.01)"));
        running -= jobs.length;
      }),
    { queues: { work: { concurrency: 5 } } },
  );

  await allSucceed(app, 20);

  expect(sizes).toEqual([5, 5, 5, 5]);
  expect(most).toBe(5);
});

test("jobs of other types hold slots and join no batch", async () => {
  await using app = await startApp();
  await sendAll(app, 3, "other");
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const sizes: number[] = [];
  let others = 0;
  await app.startWorker(
    (worker) => {
      worker.handle(other, async () => {
        others += 1;
        await finish;
      });
      worker.handleBatch(job, { maxWaitMs: 60_000 }, (jobs) => {
        sizes.push(jobs.length);
      });
    },
    { queues: { work: { concurrency: 5 } } },
  );
  await eventually(() => others === 3);

  await sendAll(app, 2);

  await allSucceed(app, 2);
  expect(sizes).toEqual([2]);
  goOn();
  await allSucceed(app, 5);
});

test("a job that stays alone starts when it has waited for long enough", async () => {
  await using app = await startApp();
  const waits: number[] = [];
  await app.startWorker((worker) =>
    worker.handleBatch(job, { maxWaitMs: 300 }, (jobs) => {
      for (const each of jobs) waits.push(Date.now() - each.enqueuedAt.getTime());
    }),
  );

  await app.send("index", { n: 1 });
  await allSucceed(app, 1);

  expect(waits).toEqual([expect.any(Number)]);
  expect(waits[0]).toBeGreaterThanOrEqual(290);
});

test("each type and version has batches of its own", async () => {
  await using app = await startApp();
  const second = defineJob({ name: "index", queue: "work", payload, version: 2 });
  await sendAll(app, 3);
  await sendAll(app, 3, "other");
  for (let n = 0; n < 3; n += 1) await app.send("index", { n }, { version: 2 });
  const batches: string[] = [];
  await app.startWorker((worker) => {
    for (const each of [job, other, second]) {
      worker.handleBatch(each, { maxJobs: 3, maxWaitMs: 60_000 }, (jobs) => {
        const names = new Set(jobs.map(({ name }) => `${name} ${each.options.version}`));
        batches.push(`${[...names].join()}: ${jobs.length}`);
      });
    }
  });

  await allSucceed(app, 9);

  expect(batches.toSorted()).toEqual(["index 1: 3", "index 2: 3", "other 1: 3"]);
});

test("time runs from the start of the batch: to wait for company costs no time-out", async () => {
  await using app = await startApp();
  const timed = defineJob({ name: "timed", queue: "work", payload, timeoutMs: 200 });
  const reasons: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handleBatch(timed, { maxJobs: 2, maxWaitMs: 1_000 }, async (jobs, signal) => {
      if (jobs.length === 1) return;
      await untilAborted(signal);
      reasons.push(signal.reason);
      throw signal.reason;
    }),
  );

  await sendAll(app, 1, "timed");
  await allSucceed(app, 1);
  await sendAll(app, 2, "timed");

  await eventually(async () =>
    expect(await app.database.rows("select failure_class from waybill.failure")).toEqual([
      { failure_class: "timeout" },
      { failure_class: "timeout" },
    ]),
  );
  expect(reasons).toEqual([expect.objectContaining({ code: "WAYBILL_JOB_TIMEOUT" })]);
});
