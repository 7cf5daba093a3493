import { defineJob, JobCancelledError } from "@waybill/core";
import { createJobs, type Jobs, pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const job = defineJob({ name: "long", queue: "work", payload: z.object({}) });
const stuck = defineJob({ name: "stuck", queue: "work", payload: z.looseObject({}) });

const jobsOf = (app: App): Jobs<PoolClient> =>
  createJobs({ database: pgDatabase(app.database.pool), actor: "ada" });

const jobRow = async (app: App, id: string): Promise<unknown> => {
  const [row] = await app.database.rows(
    "select state, cancelled_by, cancel_reason from waybill.job where id = $1",
    [id],
  );
  return row;
};

test("a running job is cancelled from another process: its signal says who and why, and nothing of it is retried", async () => {
  await using app = await startApp();
  const reasons: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(job, async ({ signal }) => {
      await untilAborted(signal);
      reasons.push(signal.reason);
      signal.throwIfAborted();
    }),
  );
  const id = await app.enqueue("long", {});
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  expect(await jobsOf(app).cancel(id, { reason: "wrong customer" })).toBe("running");

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  expect(reasons).toEqual([expect.any(JobCancelledError)]);
  expect((reasons[0] as Error).message).toContain("ada cancelled it (wrong customer)");
  expect(await jobRow(app, id)).toEqual({
    state: "cancelled",
    cancelled_by: "ada",
    cancel_reason: "wrong customer",
  });
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
  expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("a handler whose abort listener throws costs its own job, and its worker goes on", async () => {
  await using app = await startApp();
  const quick = defineJob({ name: "quick", queue: "work", payload: z.object({}) });
  const running = await app.startWorker((worker) => {
    worker.handle(job, async ({ signal }) => {
      signal.addEventListener("abort", () => {
        throw new Error("the listener is wrong");
      });
      await untilAborted(signal);
    });
    worker.handle(quick, () => undefined);
  });
  const id = await app.enqueue("long", {});
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await jobsOf(app).cancel(id);

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  const next = await app.send("quick", {});
  await eventually(async () => expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }));
  expect(running.worker.status().state).toBe("running");
});

test("a handler that ignores its cancel is given its grace, then its late result is refused and its slot is free", async () => {
  await using app = await startApp();
  const { promise: wake, resolve } = Promise.withResolvers<void>();
  const { promise: late, resolve: finished } = Promise.withResolvers<unknown>();
  const other = defineJob({ name: "other", queue: "work", payload: z.object({}) });
  const running = await app.startWorker(
    (worker) => {
      worker.handle(job, async (context) => {
        await wake;
        finished(
          await context
            .transaction((tx) => writeEffect(tx, context))
            .catch((error: unknown) => error),
        );
      });
      worker.handle(other, () => undefined);
    },
    { queues: { work: { concurrency: 1 } }, abandonMs: 200 },
  );
  const id = await app.enqueue("long", {});
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await jobsOf(app).cancel(id);

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  expect(running.worker.status().leftBehind).toBe(1);
  const next = await app.send("other", {});
  await eventually(async () => expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }));
  resolve();
  expect(await late).toBeInstanceOf(JobCancelledError);
  expect(await app.effects(id)).toBe(0);
  expect(await app.inbox(id)).toMatchObject({ state: "cancelled" });
  await eventually(() => running.worker.status().leftBehind === 0);
});

test("a handler that returns after its cancel has not succeeded, and a transactional one rolls back", async () => {
  await using app = await startApp();
  const inTransaction = defineJob({ name: "in-tx", queue: "work", payload: z.object({}) });
  await app.startWorker((worker) => {
    worker.handle(job, ({ signal }) => untilAborted(signal));
    worker.handleInTransaction(inTransaction, async (context, tx) => {
      await writeEffect(tx, context);
      await untilAborted(context.signal);
    });
  });
  const ids = [await app.enqueue("long", {}), await app.enqueue("in-tx", {})];
  await app.courier.round();
  for (const id of ids) {
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));
  }

  for (const id of ids) await jobsOf(app).cancel(id);

  for (const id of ids) {
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  }
  expect(await app.effects()).toBe(0);
});

test("queued and waiting jobs are cancelled at once, with who and why, and never run", async () => {
  await using app = await startApp();
  let runs = 0;
  const failing = defineJob({
    name: "failing",
    queue: "work",
    payload: z.object({}),
    retry: { initialDelayMs: 60_000, jitter: "none" },
  });
  const queued = await app.enqueue("long", {});
  const delayed = await app.enqueue("long", {}, { delay_ms: 600_000 });
  await app.startWorker((worker) => {
    worker.handle(job, () => void (runs += 1));
    worker.handle(failing, () => {
      throw new Error("not today");
    });
  });
  const waiting = await app.send("failing", {});
  await eventually(async () =>
    expect(await app.inbox(waiting)).toMatchObject({ state: "retry_waiting" }),
  );

  for (const id of [queued, delayed, waiting]) {
    expect(await jobsOf(app).cancel(id, { reason: "not needed" })).toBe("cancelled");
  }
  await app.courier.round(true);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));

  for (const id of [queued, delayed, waiting]) {
    expect(await jobRow(app, id)).toEqual({
      state: "cancelled",
      cancelled_by: "ada",
      cancel_reason: "not needed",
    });
  }
  expect(runs).toBe(0);
});

test("a job whose worker dies after the cancel ends as cancelled with its next delivery", async () => {
  await using app = await startApp();
  const dying = await app.startWorkerProcess({ STUCK: "1" });
  const id = await app.enqueue("stuck", {});
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));
  dying.kill("SIGSTOP");
  await jobsOf(app).cancel(id);

  dying.kill("SIGKILL");
  await app.startWorker((worker) =>
    worker.handle(stuck, (context) => context.transaction((tx) => writeEffect(tx, context))),
  );

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  expect(await app.effects()).toBe(0);
});

test("a job that is too late is not started, and says so", async () => {
  await using app = await startApp();
  let runs = 0;
  const id = await app.enqueue("long", {}, { expires_at: "2020-01-01T00:00:00Z" });
  await app.startWorker((worker) => worker.handle(job, () => void (runs += 1)));

  await app.courier.round();

  await eventually(async () =>
    expect(await jobRow(app, id)).toEqual({
      state: "cancelled",
      cancelled_by: "waybill",
      cancel_reason: "expired before it could start",
    }),
  );
  expect(runs).toBe(0);
});

test("a job that was interrupted goes on after its expiry, but is not started again after a failure", async () => {
  await using app = await startApp();
  const first = await app.startWorker(
    (worker) => worker.handle(job, () => new Promise(() => undefined)),
    { graceMs: 0, abandonMs: 0 },
  );
  const id = await app.send("long", {});
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await first.stop();
  // The delivery that was handed back, by the time at which it has expired.
  await app.courier.next("waybill.work");
  await app.send("long", {}, { id, expiresAt: new Date("2020-01-01T00:00:00Z") });
  const attempts: number[] = [];
  await app.startWorker((worker) =>
    worker.handle(job, ({ attempt }) => {
      attempts.push(attempt);
      throw new Error("too late now");
    }),
  );
  app.courier.start({ hurry: true });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  expect(attempts).toEqual([1]);
});
