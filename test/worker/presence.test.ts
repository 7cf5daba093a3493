import { defineJob, LeaseLostError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "long", queue: "work", payload });

test("a worker shows its presence, and removes it when it stops", async () => {
  await using app = await startApp();
  const running = await app.startWorker((worker) => worker.handle(job, () => undefined), {
    name: "emails-1",
  });

  expect(
    await app.database.rows(
      "select name, pid, queues, waybill.worker_alive(id) as alive from waybill.worker",
    ),
  ).toEqual([{ name: "emails-1", pid: process.pid, queues: ["work"], alive: true }]);
  await running.stop();

  expect(await app.database.rows("select from waybill.worker")).toEqual([]);
});

test("a worker that cannot renew its lease stops its handlers, and goes on under a new identity", async () => {
  await using app = await startApp();
  await using proxy = await startProxy(app.database.url);
  const reasons: unknown[] = [];
  await using running = await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        await writeEffect(tx, context);
        if (reasons.length > 0) return;
        await untilAborted(context.signal);
        reasons.push(context.signal.reason);
        throw new Error("stopped");
      }),
    { databaseUrl: proxy.url(app.database.url), leaseMs: 1_000 },
  );
  const first = running.worker.status().workerId;
  const id = await app.send("long", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  proxy.refuse();
  await eventually(() => running.worker.status().workerId === undefined);
  proxy.pass();

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1 }),
  );
  expect(reasons).toEqual([expect.any(LeaseLostError)]);
  expect(running.worker.status().workerId).not.toBe(first);
  expect(await app.effects(id)).toBe(1);
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
});

test("a heartbeat connection that is lost comes back before anybody takes the worker for dead", async () => {
  await using app = await startApp();
  const running = await app.startWorker((worker) => worker.handle(job, () => undefined));
  const { workerId } = running.worker.status();

  await app.database.rows(
    `select pg_terminate_backend(l.pid) from pg_locks as l
     where l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database())`,
  );

  await eventually(async () =>
    expect(
      await app.database.rows(
        "select id, waybill.worker_alive(id) as alive, lock_key is not null as locked from waybill.worker",
      ),
    ).toEqual([{ id: workerId, alive: true, locked: true }]),
  );
});
