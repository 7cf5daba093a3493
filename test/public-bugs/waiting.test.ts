/** Reports on work that must not start yet, as docs/reliability.md numbers them. */

import { defineJob, RetryAfterError } from "@waybill/core";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startLine } from "../support/line.ts";
import {
  consuming,
  createLedger,
  effectsOf,
  look,
  queue,
  sentinel,
  sentinelRuns,
  stateBecomes,
  writeEffect,
} from "./support.ts";

const payload = z.object({ n: z.int() });
const hourMs = 3_600_000;
const oneAtATime = { queues: { [queue]: { concurrency: 1 } } };

test("A14: what waits for an hour, by its producer's wish or for its retry, lies in the timers and is held by no worker", async () => {
  await using line = await startLine();
  const busy = defineJob({ name: "busy", queue, payload });
  const later = defineJob({ name: "later", queue, payload });
  line.startRelay();
  const worker = line.startWorker(
    [queue],
    (it) => {
      it.handle(sentinel, () => undefined);
      it.handle(later, () => undefined);
      it.handle(busy, () => {
        throw new RetryAfterError("come back later", hourMs);
      });
    },
    oneAtATime,
  );
  const asked = await line.transaction((tx) =>
    line.outbox.enqueue(tx, later, { n: 1 }, { delayMs: hourMs }),
  );
  const busyIds = await line.transaction((tx) =>
    line.outbox.enqueueMany(tx, busy, [{ payload: { n: 1 } }, { payload: { n: 2 } }]),
  );
  for (const { jobId } of busyIds) await stateBecomes(line, jobId, "retry_waiting");

  // Not even one slot is taken: a worker with a single one goes on.
  await sentinelRuns(line);
  await eventually(() =>
    expect(worker.it.status().queues).toMatchObject([{ running: 0, waiting: 0 }]),
  );
  await worker.stop();

  // What a stopped worker had held unacknowledged would be back in the queue.
  expect(await look(line)).toEqual({ ready: 0, consumers: 0 });
  const timers = await line.database.rows(
    "select id, reason, fire_at > now() + interval '50 minutes' as later from waybill.timer order by id",
  );
  expect(timers).toEqual([
    { id: asked.jobId, reason: "delay", later: true },
    ...busyIds.map(({ jobId }) => ({ id: jobId, reason: "retry", later: true })),
  ]);
});

test("A25: a short backoff behind a long one is over at its own time", async () => {
  await using line = await startLine();
  const slow = defineJob({ name: "slow", queue, payload });
  const quick = defineJob({
    name: "quick",
    queue,
    payload,
    retry: { initialDelayMs: 50, maxDelayMs: 50 },
  });
  const attempts: string[] = [];
  line.startRelay();
  line.startWorker(
    [queue],
    (it) => {
      it.handle(slow, ({ attempt }) => {
        attempts.push(`slow ${attempt}`);
        throw new RetryAfterError("a minute", 60_000);
      });
      it.handle(quick, ({ attempt }) => {
        attempts.push(`quick ${attempt}`);
        if (attempt < 3) throw new Error("not yet");
      });
    },
    oneAtATime,
  );

  const first = await line.transaction((tx) => line.outbox.enqueue(tx, slow, { n: 1 }));
  await stateBecomes(line, first.jobId, "retry_waiting");
  const second = await line.transaction((tx) => line.outbox.enqueue(tx, quick, { n: 2 }));

  await stateBecomes(line, second.jobId, "succeeded");
  expect(attempts).toEqual(["slow 1", "quick 1", "quick 2", "quick 3"]);
  expect((await line.jobs.get(first.jobId)).state).toBe("retry_waiting");
});

test("A41: a job runs after the commit of the data that it refers to, and never for data that was rolled back", async () => {
  await using line = await startLine();
  await createLedger(line);
  await line.database.rows("create table orders (n int)");
  const shipped = defineJob({ name: "order.shipped", queue, payload });
  const missing: number[] = [];
  line.startRelay();
  const worker = line.startWorker([queue], (it) => {
    it.handle(sentinel, () => undefined);
    it.handleInTransaction(shipped, async (job, tx) => {
      const { rowCount } = await tx.query("select from orders where n = $1", [job.payload.n]);
      if (rowCount !== 1) missing.push(job.payload.n);
      await writeEffect(tx, job);
    });
  });
  await consuming(worker);
  const placed = (tx: PoolClient, n: number): Promise<unknown> =>
    tx.query("insert into orders values ($1)", [n]);
  const undo = new Error("undo");

  const held = await line.transaction(async (tx) => {
    const { jobId } = await line.outbox.enqueue(tx, shipped, { n: 1 });
    // Others commit and run meanwhile; this one must not.
    await sentinelRuns(line);
    await placed(tx, 1);
    return { jobId, before: await effectsOf(line, jobId) };
  });
  const undone: string[] = [];
  await line
    .transaction(async (tx) => {
      await placed(tx, 2);
      undone.push((await line.outbox.enqueue(tx, shipped, { n: 2 })).jobId);
      throw undo;
    })
    .catch((error: unknown) => expect(error).toBe(undo));
  const kept = await line.transaction(async (tx) => {
    await tx.query("savepoint inner_step");
    await placed(tx, 3);
    undone.push((await line.outbox.enqueue(tx, shipped, { n: 3 })).jobId);
    await tx.query("rollback to savepoint inner_step");
    await placed(tx, 4);
    return await line.outbox.enqueue(tx, shipped, { n: 4 });
  });

  await stateBecomes(line, held.jobId, "succeeded");
  await stateBecomes(line, kept.jobId, "succeeded");
  await sentinelRuns(line);
  expect(held.before).toBe(0);
  expect(missing).toEqual([]);
  expect(await line.database.rows("select n from orders order by n")).toEqual([{ n: 1 }, { n: 4 }]);
  const ghosts = await line.database.rows(
    "select from waybill.inbox where id = any($1) union all select from effect where job_id = any($1)",
    [undone],
  );
  expect(ghosts).toEqual([]);
});
