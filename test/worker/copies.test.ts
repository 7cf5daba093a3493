import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "copy", queue: "work", payload });

test("C11: copies of one id in one batch run once", async () => {
  await using app = await startApp();
  let runs = 0;
  const ids: string[] = [];
  for (let n = 0; n < 20; n += 1) {
    const id = await app.send("copy", { n });
    for (let copy = 0; copy < 4; copy += 1) await app.send("copy", { n }, { id });
    ids.push(id);
  }

  await app.startWorker((worker) =>
    worker.handleInTransaction(job, async (context, tx) => {
      runs += 1;
      await writeEffect(tx, context);
    }),
  );
  app.courier.start({ hurry: true });

  const done = (): Promise<unknown[]> =>
    app.database.rows("select from waybill.inbox where state = 'succeeded'");
  await eventually(async () => {
    expect(await done()).toHaveLength(20);
    expect(await app.database.rows("select from waybill.timer")).toEqual([]);
    expect(await app.courier.depth("waybill.work")).toBe(0);
  });
  expect(runs).toBe(20);
  for (const id of ids) expect(await app.effects(id)).toBe(1);
});

test("a copy of a running job takes no slot of a job that waits", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const first = await app.send("copy", { n: 1 });
  await app.send("copy", { n: 1 }, { id: first });
  const second = await app.send("copy", { n: 2 });

  await app.startWorker(
    (worker) =>
      worker.handle(job, async (context) => {
        if (context.payload.n === 1) await finish;
      }),
    { queues: { work: { concurrency: 2 } } },
  );

  await eventually(async () =>
    expect(await app.inbox(second)).toMatchObject({ state: "succeeded" }),
  );
  expect(await app.inbox(first)).toMatchObject({ state: "running" });
  goOn();
  await eventually(async () =>
    expect(await app.inbox(first)).toMatchObject({ state: "succeeded" }),
  );
});

test("E1: two copies at once on two workers run once; the second is held back, never dropped", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  let runs = 0;
  for (let n = 0; n < 2; n += 1) {
    await app.startWorker((worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        runs += 1;
        await writeEffect(tx, context);
        await finish;
      }),
    );
  }

  const ids: string[] = [];
  for (let n = 0; n < 8; n += 1) {
    const id = await app.send("copy", { n });
    await app.send("copy", { n }, { id });
    ids.push(id);
  }
  const held = (): Promise<{ id: string; reason: string }[]> =>
    app.database.rows("select id, reason from waybill.timer");
  await eventually(async () => expect(await held()).toHaveLength(8));
  goOn();
  app.courier.start({ hurry: true });

  await eventually(async () => {
    const rows = await app.database.rows("select from waybill.inbox where state = 'succeeded'");
    expect(rows).toHaveLength(8);
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await held()).toEqual([]);
  });
  expect(runs).toBe(8);
  for (const id of ids) expect(await app.effects(id)).toBe(1);
});

test("E1: a held copy runs the job if its owner dies", async () => {
  await using app = await startApp();
  const victim = await app.startWorkerProcess({ STUCK: "1" });
  const id = await app.send("stuck", { n: 1 });
  await victim.waitForLine(`run stuck ${id}`);
  await app.send("stuck", { n: 1 }, { id });
  await eventually(async () =>
    expect(await app.database.rows("select reason from waybill.timer")).toEqual([
      { reason: "held" },
    ]),
  );
  victim.kill("SIGKILL");
  await victim.exited;
  // Only the held copy is left.
  await app.courier.next("waybill.work");

  await app.startWorkerProcess();
  await app.courier.round(true);

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 1 }),
  );
  expect(await app.effects(id)).toBe(1);
});

test("D4: a connection cut with jobs in flight: their commits stand, and the redelivered copies are acked", async () => {
  await using app = await startApp();
  await using proxy = await startProxy(app.vhost.url);
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  let runs = 0;
  const { worker } = await app.startWorker(
    (each) =>
      each.handleInTransaction(job, async (context, tx) => {
        runs += 1;
        await writeEffect(tx, context);
        await finish;
      }),
    { brokerUrl: proxy.url(app.vhost.url) },
  );
  for (let n = 0; n < 10; n += 1) await app.send("copy", { n });
  await eventually(() => runs === 10);

  proxy.cut();
  // The copies of the running jobs come back on the new connection, and wait there.
  await eventually(async () => {
    expect(worker.status().queues).toMatchObject([{ consumer: "consuming" }]);
    expect(await app.courier.depth("waybill.work")).toBe(0);
  });
  goOn();
  app.courier.start({ hurry: true });

  await eventually(async () => {
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(10);
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  });
  expect(runs).toBe(10);
  expect(await app.effects()).toBe(10);
  await eventually(() =>
    expect(worker.status().queues).toMatchObject([
      { consumer: "consuming", waiting: 0, running: 0 },
    ]),
  );
});

test("D5: a fast job's ack settles no slow job before it", async () => {
  await using app = await startApp();
  const slow = await app.startWorkerProcess({ STUCK: "1", CONCURRENCY: "20" });
  const stuck: string[] = [];
  for (let n = 0; n < 9; n += 1) stuck.push(await app.send("stuck", { n }));
  const fast = await app.send("effect", { n: 10 });
  await eventually(async () => expect(await app.inbox(fast)).toMatchObject({ state: "succeeded" }));
  for (const id of stuck) await slow.waitForLine(`run stuck ${id}`);

  slow.kill("SIGKILL");
  await slow.exited;
  await app.startWorkerProcess();

  await eventually(async () => {
    const rows = await app.database.rows(
      "select from waybill.inbox where type = 'stuck' and state = 'succeeded'",
    );
    expect(rows).toHaveLength(9);
  });
  expect(await app.effects()).toBe(10);
});

test("two workers share a queue, and every job runs once", async () => {
  await using app = await startApp();
  const byWorker = [0, 0];
  for (const index of [0, 1]) {
    await app.startWorker(
      (worker) =>
        worker.handleInTransaction(job, async (context, tx) => {
          byWorker[index] = (byWorker[index] ?? 0) + 1;
          await writeEffect(tx, context);
        }),
      { queues: { work: { concurrency: 5 } } },
    );
  }

  await Promise.all(Array.from({ length: 500 }, (_, n) => app.send("copy", { n })));

  await eventually(async () => {
    const rows = await app.database.rows("select from waybill.inbox where state = 'succeeded'");
    expect(rows).toHaveLength(500);
  });
  expect(await app.effects()).toBe(500);
  expect(Math.min(...byWorker)).toBeGreaterThan(0);
});

test("C11: a job whose copy was held back and sent again is still one job", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  await app.startWorker((worker) => worker.handle(job, () => finish));
  const id = await app.enqueue("copy", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));
  // As if it had been enqueued a while ago.
  await app.database.pool.query(
    "update waybill.outbox set enqueued_at = enqueued_at - interval '1 hour', created_at = created_at - interval '1 hour'",
  );
  await app.send("copy", { n: 1 }, { id, enqueuedAt: new Date(Date.now() - 3_600_000) });
  await eventually(async () =>
    expect(await app.database.rows("select from waybill.timer")).toHaveLength(1),
  );

  await app.courier.round(true);
  goOn();

  await eventually(async () =>
    expect(await app.database.rows("select state from waybill.job where id = $1", [id])).toEqual([
      { state: "succeeded" },
    ]),
  );
  expect(await app.database.rows("select from waybill.outbox where id = $1", [id])).toHaveLength(2);
});

test("what waits behind a slow job in one worker runs in another one that is idle", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const queues = { work: { concurrency: 1 } };
  let runs = 0;
  const wait: Parameters<typeof app.startWorker>[0] = (worker) =>
    worker.handle(job, () => {
      runs += 1;
      return runs === 1 ? finish : undefined;
    });
  await app.startWorker(wait, { queues });
  for (let n = 0; n < 8; n += 1) await app.send("copy", { n });
  await eventually(() => runs === 1);

  await app.startWorker(wait, { queues });

  await eventually(() => expect(runs).toBe(8));
  goOn();
});
