import { defineJob, ShutdownError } from "@waybill/core";
import { createJobs, type Jobs, pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, type TestProcess } from "../../support/index.ts";
import { type App, startApp, untilAborted, writeEffect } from "../../worker/support/start-app.ts";

const payload = z.looseObject({});
const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const job = defineJob({ name: "index", queue: "work", payload, retry });

const jobsOf = (app: App): Jobs<PoolClient> =>
  createJobs({ database: pgDatabase(app.database.pool), actor: "ada" });
const startBatchWorker = (app: App, env: Record<string, string> = {}): Promise<TestProcess> =>
  app.startWorkerProcess(env, new URL("../../flow/modules/batch-worker.ts", import.meta.url));

async function enqueueAll(app: App, name: string, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.push(await app.enqueue(name, {}));
  await app.courier.round();
  return ids;
}

async function endAs(
  app: App,
  ids: readonly string[],
  row: Readonly<Record<string, unknown>>,
): Promise<void> {
  await eventually(async () => {
    for (const id of ids) expect(await app.inbox(id)).toMatchObject(row);
  });
}

test("a job that is cancelled in a batch ends as cancelled, and the others go on", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const stopped: string[] = [];
  let batchStopped: boolean | undefined;
  const running = await app.startWorker(
    (worker) =>
      worker.handleBatch(job, { maxJobs: 3, maxWaitMs: 60_000 }, async (jobs, signal) => {
        for (const each of jobs) each.signal.addEventListener("abort", () => stopped.push(each.id));
        await finish;
        for (const each of jobs) {
          if (each.signal.aborted) continue;
          await each.transaction((tx) => writeEffect(tx, each));
        }
        batchStopped = signal.aborted;
      }),
    { abandonMs: 100 },
  );
  const [cancelled = "", ...others] = await enqueueAll(app, "index", 3);
  await endAs(app, [cancelled, ...others], { state: "running" });

  await jobsOf(app).cancel(cancelled);

  // The handler has not returned: after `abandonMs` the job ends without it.
  await endAs(app, [cancelled], { state: "cancelled" });
  expect(stopped).toEqual([cancelled]);
  expect(running.worker.status()).toMatchObject({ running: 2, leftBehind: 0 });
  goOn();
  await endAs(app, others, { state: "succeeded", attempt: 1 });
  expect(batchStopped).toBe(false);
  expect(await app.effects(cancelled)).toBe(0);
  expect(await app.effects()).toBe(2);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("a job that is cancelled while it waits for its batch ends at once", async () => {
  await using app = await startApp();
  const sizes: number[] = [];
  await app.startWorker((worker) =>
    worker.handleBatch(job, { maxJobs: 2, maxWaitMs: 60_000 }, (jobs) => {
      sizes.push(jobs.length);
    }),
  );
  const [cancelled = ""] = await enqueueAll(app, "index", 1);
  await endAs(app, [cancelled], { state: "running" });

  await jobsOf(app).cancel(cancelled);
  await endAs(app, [cancelled], { state: "cancelled" });
  const others = await enqueueAll(app, "index", 2);

  await endAs(app, others, { state: "succeeded" });
  expect(sizes).toEqual([2]);
});

test("a batch that hangs gives up its slots, and counts as one handler left behind", async () => {
  await using app = await startApp();
  const hanging = defineJob({ name: "hanging", queue: "work", payload, timeoutMs: 100, retry });
  const { promise: later, resolve: goOn } = Promise.withResolvers<void>();
  const running = await app.startWorker(
    (worker) =>
      worker.handleBatch(hanging, { maxJobs: 3, maxWaitMs: 60_000 }, async (jobs) => {
        if (jobs.some(({ attempt }) => attempt === 1)) await later;
      }),
    { abandonMs: 50, queues: { work: { concurrency: 3 } } },
  );

  const ids = await enqueueAll(app, "hanging", 3);
  app.courier.start({ hurry: true });

  await endAs(app, ids, { state: "succeeded", attempt: 2, crashes: 0 });
  expect(running.worker.status()).toMatchObject({ running: 0, leftBehind: 1 });
  goOn();
  await eventually(() => running.worker.status().leftBehind === 0);
});

test("the jobs of a killed worker's batch run elsewhere once more, and each effect is there once", async () => {
  await using app = await startApp();
  const victim = await startBatchWorker(app, { STUCK: "1" });
  const ids = await enqueueAll(app, "stuck", 5);
  await victim.waitForLine("batch stuck 5");
  const other = await startBatchWorker(app);

  victim.kill("SIGKILL");

  await endAs(app, ids, { state: "succeeded", attempt: 1, crashes: 1 });
  expect(other.stdout).toContain("batch stuck 5");
  for (const id of ids) expect(await app.effects(id)).toBe(1);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("F2: a job that kills its worker is dead-lettered as crashed in the end, and its neighbours of the batch are done", async () => {
  await using app = await startApp();
  const others = await enqueueAll(app, "killer", 6);
  const killer = await app.send("killer", { kill: true });
  app.courier.start({ hurry: true });

  const isOver = async (): Promise<boolean> =>
    (await app.inbox(killer))?.state === "failed" && (await app.effects()) === others.length;
  let deaths = 0;
  while (deaths < 10 && !(await isOver())) {
    // The one that meets the job dies, perhaps before it says that it has started.
    const worker = await startBatchWorker(app).catch(() => undefined);
    await eventually(async () => worker?.hasExited !== false || (await isOver()), {
      deadlineMs: 60_000,
    });
    if (worker?.hasExited !== false) deaths += 1;
  }

  expect(deaths).toBe(4);
  await endAs(app, others, { state: "succeeded", attempt: 1 });
  expect(await app.database.rows("select id, failure_class from waybill.failure")).toEqual([
    { id: killer, failure_class: "crashed" },
  ]);
  for (const id of others) expect(await app.effects(id)).toBe(1);
});

test("a stopping worker hands back at once what waits for a batch, and spends no attempt", async () => {
  await using app = await startApp();
  let batches = 0;
  const running = await app.startWorker(
    (worker) =>
      worker.handleBatch(job, { maxJobs: 3, maxWaitMs: 60_000 }, () => {
        batches += 1;
      }),
    { graceMs: 60_000 },
  );
  const ids = await enqueueAll(app, "index", 2);
  await endAs(app, ids, { state: "running" });

  await running.stop();

  expect(batches).toBe(0);
  await endAs(app, ids, { state: "retry_waiting", owner: null });
  await app.startWorker((worker) => worker.handleBatch(job, { maxJobs: 2 }, () => undefined));
  await endAs(app, ids, { state: "succeeded", attempt: 1, crashes: 0 });
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
});

test("a batch that outlasts the grace is handed back but for what it has stated, and spends no attempt", async () => {
  await using app = await startApp();
  const reasons: unknown[] = [];
  const running = await app.startWorker(
    (worker) =>
      worker.handleBatch(job, { maxJobs: 3, maxWaitMs: 60_000 }, async (jobs, signal) => {
        jobs[0]?.succeed();
        await untilAborted(signal);
        reasons.push(signal.reason);
        signal.throwIfAborted();
      }),
    { graceMs: 100 },
  );
  const ids = await enqueueAll(app, "index", 3);
  await endAs(app, ids, { state: "running" });

  await running.stop();

  expect(reasons).toEqual([expect.any(ShutdownError)]);
  const rows = await Promise.all(ids.map((id) => app.inbox(id)));
  expect(rows.filter((row) => row?.state === "succeeded")).toHaveLength(1);
  expect(rows.filter((row) => row?.state === "retry_waiting")).toHaveLength(2);
  await app.startWorker((worker) => worker.handleBatch(job, { maxJobs: 2 }, () => undefined));
  await endAs(app, ids, { state: "succeeded", attempt: 1, crashes: 0 });
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
});

test("an error outside the promise of a batch fails the jobs without a statement, and costs the worker nothing", async () => {
  await using app = await startApp();
  const worker = await startBatchWorker(app);
  const ids = await enqueueAll(app, "stray", 3);
  app.courier.start({ hurry: true });

  await endAs(app, ids, { state: "succeeded", crashes: 0 });

  const failures = await app.database.rows("select attempt, message from waybill.failure");
  expect(failures).toEqual([
    { attempt: 1, message: "stray" },
    { attempt: 1, message: "stray" },
  ]);
  expect(worker.hasExited).toBe(false);
});
