/** Thousands of jobs at once: follow-up jobs of one parent, small ones beside a huge one. */

import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../../support/index.ts";
import { startLine } from "../../support/line.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 } as const;
const once = { ...retry, maxAttempts: 1 };

test("G6: twenty thousand follow-up jobs of one parent all exist after its commit, none after its failures, and each runs once", async () => {
  await using line = await startLine();
  const children = 20_000;
  const parent = defineJob({ name: "parent", queue: "work", payload, retry });
  const hopeless = defineJob({ name: "hopeless", queue: "work", payload, retry: once });
  const child = defineJob({ name: "child", queue: "work", payload });
  line.startRelay();
  const register = (worker: Worker<PoolClient>): void => {
    const flood = async (tx: PoolClient): Promise<void> => {
      for (let n = 0; n < children; n += 1_000) {
        const rows = Array.from({ length: 1_000 }, (_, m) => ({ payload: { n: n + m } }));
        await line.outbox.enqueueMany(tx, child, rows);
      }
    };
    worker.handleInTransaction(parent, async (job, tx) => {
      await flood(tx);
      if (job.attempt < 2) throw new Error("after the children");
    });
    worker.handleInTransaction(hopeless, async (_job, tx) => {
      await flood(tx);
      throw new Error("after the children");
    });
    worker.handle(child, () => undefined);
  };
  line.startWorker(["work"], register, { queues: { work: { concurrency: 20 } } });

  await line.transaction(async (tx) => {
    await line.outbox.enqueue(tx, parent, { n: 1 });
    await line.outbox.enqueue(tx, hopeless, { n: 1 });
  });

  await eventually(
    async () => {
      const { total } = await line.jobs.counts();
      expect(total).toMatchObject({ succeeded: children + 1, failed: 1, queued: 0, running: 0 });
    },
    { deadlineMs: 90_000, intervalMs: 500 },
  );
  expect(
    await line.database.rows(
      "select count(*)::int, max(attempt) as attempt, max(crashes) as crashes from waybill.inbox where type = 'child'",
    ),
  ).toEqual([{ count: children, attempt: 1, crashes: 0 }]);
});

test("D8: with two slots, thousands of small jobs all finish while a huge one among them still runs", async () => {
  await using line = await startLine();
  const huge = defineJob({ name: "huge", queue: "work", payload });
  const small = defineJob({ name: "small", queue: "work", payload });
  const { promise: later, resolve: goOn } = Promise.withResolvers<void>();
  line.startRelay();
  line.startWorker(
    ["work"],
    (worker) => {
      worker.handle(huge, () => later);
      worker.handle(small, () => undefined);
    },
    { queues: { work: { concurrency: 2 } } },
  );
  const enqueue = (tx: PoolClient): Promise<unknown> =>
    line.outbox.enqueueMany(
      tx,
      small,
      Array.from({ length: 1_000 }, (_, n) => ({ payload: { n } })),
    );

  const { jobId } = await line.transaction(async (tx) => {
    await enqueue(tx);
    const enqueued = await line.outbox.enqueue(tx, huge, { n: 1 });
    await enqueue(tx);
    await enqueue(tx);
    return enqueued;
  });

  await eventually(
    async () => {
      const { total } = await line.jobs.counts();
      expect(total).toMatchObject({ succeeded: 3_000, running: 1, queued: 0 });
    },
    { deadlineMs: 60_000, intervalMs: 250 },
  );
  expect(await line.jobs.get(jobId)).toMatchObject({ state: "running", crashes: 0 });
  goOn();
  await eventually(async () => expect((await line.jobs.get(jobId)).state).toBe("succeeded"));
});
