/** Events that tell a job's end: one for each end, whatever the way to it, and none for anything else. */

import { randomUUID } from "node:crypto";
import type { JobEnded } from "@waybill/core";
import { drainJobs, enqueuedJobs } from "@waybill/testing";
import { createWorker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import { startApp, writeEffect } from "../worker/support/start-app.ts";
import { deskOf, ended, endsOf, quiet, report, settled, told } from "./support/report.ts";

describe("one event tells the end of a job", () => {
  test("that a plain handler brought to success", async () => {
    await using app = await startApp();
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
    app.courier.start();

    const id = await deskOf(app).enqueue();

    expect(await settled(app, id, "succeeded")).toEqual(told(id, { result: { rows: 3 } }));
  });

  test("that a transactional handler brought to success, after a rolled back completion that told nothing", async () => {
    await using app = await startApp();
    const seen: unknown[] = [];
    let tries = 0;
    await app.startWorker(
      (worker) =>
        worker.handleInTransaction(report, async (job, tx) => {
          await writeEffect(tx, job);
          return { rows: job.attempt };
        }),
      {
        async failpoint(name) {
          if (name !== "worker.beforeCommit") return;
          tries += 1;
          seen.push(await app.database.rows("select from waybill.outbox where kind = 'event'"));
          if (tries === 1) throw new Error("no luck at the very end");
        },
      },
    );
    app.courier.start({ hurry: true });

    const id = await deskOf(app).enqueue();

    expect(await settled(app, id, "succeeded")).toEqual(
      told(id, { attempt: 2, result: { rows: 2 } }),
    );
    expect(seen).toEqual([[], []]);
  });

  test("that failed for good, with the class and the message of its last failure", async () => {
    await using app = await startApp();
    await app.startWorker((worker) =>
      worker.handle(report, ({ attempt }) => {
        throw new Error(`no luck, attempt ${attempt}`);
      }),
    );
    app.courier.start({ hurry: true });

    const id = await deskOf(app).enqueue();

    expect(await settled(app, id, "failed")).toEqual(
      told(id, {
        state: "failed",
        attempt: 2,
        failureClass: "unknown",
        failureMessage: "no luck, attempt 2",
      }),
    );
  });

  test("that was cancelled before any worker saw it", async () => {
    await using app = await startApp();
    const { enqueue, jobs } = deskOf(app);
    const id = await enqueue();
    const later = await enqueue({ delayMs: 3_600_000 });

    await jobs.cancel(id, { reason: "ordered twice" });
    await jobs.cancel(later);
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
    app.courier.start();

    const cancelled = { state: "cancelled", attempt: 0, cancelledBy: "ada" } as const;
    expect(await settled(app, id, "cancelled")).toEqual(
      told(id, { ...cancelled, cancelReason: "ordered twice" }),
    );
    expect(await settled(app, later, "cancelled")).toEqual(told(later, cancelled));
  });

  test("that was cancelled while it waited for its next attempt", async () => {
    await using app = await startApp();
    const { enqueue, jobs } = deskOf(app);
    await app.startWorker((worker) =>
      worker.handle(report, () => {
        throw new Error("no luck");
      }),
    );
    const id = await enqueue();
    await app.courier.round();
    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "retry_waiting" }),
    );

    await jobs.cancel(id);

    expect(await settled(app, id, "cancelled")).toEqual(
      told(id, { state: "cancelled", cancelledBy: "ada" }),
    );
  });

  test("that was cancelled while it ran", async () => {
    await using app = await startApp();
    const { enqueue, jobs } = deskOf(app);
    const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
    let isRunning = false;
    await app.startWorker((worker) =>
      worker.handle(report, async () => {
        isRunning = true;
        await finish;
        throw new Error("stopped half way");
      }),
    );
    app.courier.start();
    const id = await enqueue();
    await eventually(() => isRunning);

    await jobs.cancel(id, { reason: "too slow", actor: "grace" });
    expect(await endsOf(app, id)).toEqual([]);
    goOn();

    expect(await settled(app, id, "cancelled")).toEqual(
      told(id, { state: "cancelled", cancelledBy: "grace", cancelReason: "too slow" }),
    );
  });

  test("that had expired when a worker took it", async () => {
    await using app = await startApp();
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
    const id = await deskOf(app).enqueue({ expiresAt: new Date(1_700_000_000_000) });

    app.courier.start();

    expect(await settled(app, id, "cancelled")).toEqual(
      told(id, {
        state: "cancelled",
        attempt: 0,
        cancelledBy: "waybill",
        cancelReason: "expired before it could start",
      }),
    );
  });

  test("that has killed too many workers", async () => {
    await using app = await startApp();
    const id = await deskOf(app).enqueue();
    // As a worker leaves it that died with the job, without what the message says of its end.
    await app.database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, crashes, dispatch, owner, enqueued_at)
       values ($1, 'work', 'report', 'running', 1, 3, 1, $2, now())`,
      [id, randomUUID()],
    );
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));

    app.courier.start();

    expect(await settled(app, id, "failed")).toEqual(
      told(id, {
        state: "failed",
        failureClass: "crashed",
        failureMessage: expect.any(String) as string,
      }),
    );
  });

  test("that no worker had a handler for", async () => {
    await using app = await startApp();
    await app.startWorker((worker) => worker.handle(quiet, () => undefined), {
      noHandlerWindowMs: 0,
    });
    app.courier.start({ hurry: true });

    const id = await deskOf(app).enqueue();

    expect(await settled(app, id, "failed")).toEqual(
      told(id, {
        state: "failed",
        attempt: 0,
        failureClass: "no_handler",
        failureMessage: expect.stringContaining("report") as string,
      }),
    );
  });

  test("whose bytes nobody can read", async () => {
    await using app = await startApp();
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));

    const id = await app.send(
      "report",
      {},
      {
        payload: Buffer.from([0xff, 0x00]).toString("base64"),
        payloadBase64: true,
        headers: { "waybill-on-terminal": ended.name },
      },
    );

    expect(await settled(app, id, "failed")).toEqual(
      told(id, {
        state: "failed",
        attempt: 0,
        failureClass: "undecodable",
        failureMessage: expect.stringContaining("not UTF-8") as string,
      }),
    );
  });

  test("that a test drained, in its own transaction and outside", async () => {
    await using app = await startApp();
    const { enqueue, outbox } = deskOf(app);
    const { dataLayer: database } = app;
    const received: JobEnded[] = [];
    const worker = createWorker<PoolClient>({
      database,
      databaseUrl: app.database.url,
      broker: { url: app.vhost.url },
      queues: { work: { concurrency: 1 } },
    });
    worker.handle(report, ({ payload }) => {
      if (payload.n === 1) throw new Error("no luck");
      return { rows: 3 };
    });
    worker.on(ended, { subscription: "mails" }, ({ payload }) => void received.push(payload));

    const id = await enqueue();
    const { failed } = await drainJobs(worker, { onFailure: "retry" });
    const inTest = await database.transaction(async (tx) => {
      const { jobId } = await outbox.enqueue(tx, report, { n: 2 });
      expect((await enqueuedJobs(tx, { database, job: report }))[0]).toMatchObject({
        headers: {},
        onTerminal: ended.name,
      });
      await drainJobs(worker, { tx, onFailure: "retry" });
      return jobId;
    });

    expect(failed).toHaveLength(1);
    expect(received.map(({ jobId, state }) => [jobId, state])).toEqual([
      [id, "failed"],
      [inTest, "succeeded"],
    ]);
    expect(await endsOf(app, id)).toEqual([received[0]]);
  });
});
