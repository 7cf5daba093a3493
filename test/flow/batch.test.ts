import { defineJob, DuplicateJobError, NonRetryableError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, writeEffect } from "../worker/support/start-app.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;
const job = defineJob({ name: "index", queue: "work", payload, retry });

async function sendAll(app: App, name: string, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.push(await app.send(name, { n }));
  return ids;
}

/** What became of each job. */
const states = async (app: App, ids: readonly string[]): Promise<readonly string[]> =>
  await Promise.all(
    ids.map(async (id) => {
      const row = await app.inbox(id);
      return `${row?.state} ${row?.attempt}`;
    }),
  );

const failures = (app: App): Promise<readonly Record<string, unknown>[]> =>
  app.database.rows(
    "select id, attempt, failure_class, message from waybill.failure order by failure_id",
  );

test("each job of a batch has an outcome of its own: result, final failure, retry", async () => {
  await using app = await startApp();
  const counted = defineJob({
    name: "counted",
    queue: "work",
    payload,
    result: z.object({ twice: z.int() }),
    retry,
  });
  const ids = await sendAll(app, "counted", 4);
  const sizes: number[] = [];
  await app.startWorker((worker) =>
    worker.handleBatch(counted, { maxJobs: 4, maxWaitMs: 60_000 }, (jobs) => {
      sizes.push(jobs.length);
      for (const each of jobs) {
        const { n } = each.payload;
        if (n === 1) each.fail(new NonRetryableError("never"));
        else if (n === 2) each.fail(new Error("not yet"));
        // The last one gets no result, which its schema demands.
        else if (n === 0) each.succeed({ twice: 0 });
      }
    }),
  );

  await eventually(async () =>
    expect(await states(app, ids)).toEqual([
      "succeeded 1",
      "failed 1",
      "retry_waiting 1",
      "failed 1",
    ]),
  );

  expect(sizes).toEqual([4]);
  expect(await app.database.rows("select id, result from waybill.result")).toEqual([
    { id: ids[0], result: '{"twice":0}' },
  ]);
  expect(await failures(app)).toEqual(
    expect.arrayContaining([
      { id: ids[1], attempt: 1, failure_class: "validation", message: "never" },
      { id: ids[2], attempt: 1, failure_class: "unknown", message: "not yet" },
      expect.objectContaining({ id: ids[3], attempt: 1, failure_class: "validation" }),
    ]),
  );
});

test("payloads that fit no schema fail alone and never reach the handler, and their neighbours lose nothing", async () => {
  await using app = await startApp();
  const good = await sendAll(app, "index", 3);
  const bad = await app.send("index", { n: "three" });
  const broken = await app.send("index", null, { payload: '{"n":' });
  const more = await sendAll(app, "index", 3);
  const seen = new Set<string>();
  await app.startWorker((worker) =>
    worker.handleBatch(job, { maxJobs: 6, maxWaitMs: 60_000 }, (jobs) => {
      for (const { id } of jobs) seen.add(id);
    }),
  );

  await eventually(async () =>
    expect(await states(app, [...good, ...more])).toEqual(
      Array.from({ length: 6 }, () => "succeeded 1"),
    ),
  );
  await eventually(async () => expect(await states(app, [bad])).toEqual(["failed 1"]));
  await eventually(async () => expect(await states(app, [broken])).toEqual(["failed 1"]));

  expect(seen).toEqual(new Set([...good, ...more]));
  for (const failure of await failures(app)) {
    expect(failure).toMatchObject({ failure_class: "validation" });
  }
});

test("a handler that throws fails the jobs of which it has stated nothing, and they alone run again", async () => {
  await using app = await startApp();
  const ids = await sendAll(app, "index", 3);
  const runs: (readonly number[])[] = [];
  await app.startWorker((worker) =>
    worker.handleBatch(job, { maxJobs: 3, maxWaitMs: 1_000 }, async (jobs) => {
      runs.push(jobs.map((each) => each.payload.n).toSorted((a, b) => a - b));
      for (const each of jobs) {
        if (each.payload.n !== 0 && each.attempt === 1) continue;
        await each.transaction((tx) => writeEffect(tx, each));
        each.succeed();
      }
      if (runs.length === 1) throw new Error("half of it");
    }),
  );
  app.courier.start({ hurry: true });

  await eventually(async () =>
    expect(await states(app, ids)).toEqual(["succeeded 1", "succeeded 2", "succeeded 2"]),
  );

  expect(runs[0]).toEqual([0, 1, 2]);
  expect(runs.slice(1).flat()).toHaveLength(2);
  expect(new Set(runs.slice(1).flat())).toEqual(new Set([1, 2]));
  expect(await failures(app)).toHaveLength(2);
  for (const id of ids) expect(await app.effects(id)).toBe(1);
});

test("what a batch saves and reports is each job's own", async () => {
  await using app = await startApp();
  const stepped = defineJob({
    name: "stepped",
    queue: "work",
    payload,
    checkpoint: z.object({ at: z.int() }),
    retry,
  });
  const ids = await sendAll(app, "stepped", 2);
  const checkpoints = new Map<number, unknown>();
  await app.startWorker((worker) =>
    worker.handleBatch(stepped, { maxJobs: 2, maxWaitMs: 1_000 }, async (jobs) => {
      for (const each of jobs) {
        if (each.attempt > 1) checkpoints.set(each.payload.n, each.checkpoint);
        each.reportProgress({ done: each.payload.n });
        await each.transaction((tx) => each.saveCheckpoint(tx, { at: each.payload.n + 10 }));
        if (each.attempt === 1) each.fail(new Error("again"));
      }
    }),
  );
  app.courier.start({ hurry: true });

  await eventually(async () =>
    expect(await states(app, ids)).toEqual(["succeeded 2", "succeeded 2"]),
  );

  expect(checkpoints).toEqual(
    new Map([
      [0, { at: 10 }],
      [1, { at: 11 }],
    ]),
  );
});

test("a job has one handler, of whatever kind", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => {
    worker.handleBatch(job, {}, () => undefined);
    expect(() => worker.handleBatch(job, {}, () => undefined)).toThrow(DuplicateJobError);
    expect(() => worker.handle(job, () => undefined)).toThrow(DuplicateJobError);
  });
});
