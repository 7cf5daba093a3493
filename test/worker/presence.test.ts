import type { Worker } from "node:worker_threads";
import { defineJob, LeaseLostError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { openOwnDatabase } from "../../packages/worker/src/own-database.ts";
import { Presence } from "../../packages/worker/src/presence.ts";
import { eventually, startProxy } from "../support/index.ts";
import { testLogger } from "./support/app-parts.ts";
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

test("a heartbeat connection that is lost, however often, comes back before anybody takes the worker for dead", async () => {
  await using app = await startApp();
  const running = await app.startWorker((worker) => worker.handle(job, () => undefined));
  const { workerId } = running.worker.status();

  for (let n = 0; n < 3; n += 1) {
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
  }
});

test("a heartbeat tells what its worker does", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => worker.handle(job, () => undefined), {
    leaseMs: 1_000,
    heartbeatMs: 200,
    holdMs: 5_000,
  });
  await app.send("long", { n: 1 });

  await eventually(async () =>
    expect(
      await app.database.rows(
        `select heartbeat_ms, hold_ms, state, running, finished_jobs, rss_bytes > 1000000 as has_rss, blocked_ms
         from waybill.worker where finished_jobs > 0`,
      ),
    ).toEqual([
      {
        heartbeat_ms: 200,
        hold_ms: "5000",
        state: "running",
        running: 0,
        finished_jobs: "1",
        has_rss: true,
        blocked_ms: null,
      },
    ]),
  );
});

test("a worker whose heartbeat thread dies goes on under a new identity, and so does its process", async () => {
  await using app = await startApp();
  using threads = watchThreads();
  const running = await app.startWorker((worker) =>
    worker.handle(job, (context) => context.transaction((tx) => writeEffect(tx, context))),
  );
  const first = running.worker.status().workerId;

  await threads.last?.terminate();

  await eventually(() => expect(running.worker.status().workerId).not.toBe(first));
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select id, waybill.worker_alive(id) as alive from waybill.worker order by started_at",
      ),
    ).toEqual([
      { id: first, alive: false },
      { id: running.worker.status().workerId, alive: true },
    ]),
  );
  const id = await app.send("long", { n: 1 });
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1 }),
  );
  expect(await app.effects(id)).toBe(1);
});

test("a lease outlives a blocked event loop, and its end shows before any timer or message has come", async () => {
  await using app = await startApp();
  await using proxy = await startProxy(app.database.url);
  await using renewed = await startPresence(app.database.url);
  // The proxy stands still together with this event loop, so this one's renewals go nowhere.
  await using cut = await startPresence(proxy.url(app.database.url));

  block(3_000);

  expect(renewed.it.bootId).toBe(renewed.first);
  expect(cut.it.bootId).toBeUndefined();
  expect(cut.lost).toEqual([]);
  await eventually(() => expect(cut.lost).toEqual([cut.first]));
  expect(renewed.lost).toEqual([]);
});

test("a worker that stops ends its heartbeat thread, even where the database does not answer", async () => {
  await using app = await startApp();
  await using proxy = await startProxy(app.database.url);
  using threads = watchThreads();
  await using presence = await startPresence(proxy.url(app.database.url));
  const ended = new Promise((resolve) => threads.last?.once("exit", resolve));

  proxy.blackHole();
  await presence.it.stop();

  await expect(ended).resolves.toBeTypeOf("number");
});

/** Keeps the event loop from turning. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** Takes note of the threads that this process starts. */
function watchThreads(): Disposable & { readonly last: Worker | undefined } {
  const started: Worker[] = [];
  const note = (thread: Worker): void => void started.push(thread);
  process.on("worker", note);
  return {
    get last() {
      return started.at(-1);
    },
    [Symbol.dispose]: () => void process.off("worker", note),
  };
}

/** A presence without a worker around it. */
async function startPresence(databaseUrl: string): Promise<
  AsyncDisposable & {
    readonly it: Presence;
    readonly first: string;
    readonly lost: readonly string[];
  }
> {
  const options = { databaseUrl, schema: "waybill", name: "alone", logger: testLogger };
  const database = await openOwnDatabase(options);
  const lost: string[] = [];
  const alive = Promise.withResolvers<string>();
  const it = new Presence({
    ...options,
    database,
    version: "0",
    queues: ["work"],
    leaseMs: 1_000,
    heartbeatMs: 333,
    holdMs: 60_000,
    blockedWarnMs: 1_000,
    blockedMaxMs: 300_000,
    running: () => 0,
    finished: () => 0,
    state: () => "running",
    onAlive: alive.resolve,
    onLost: (bootId) => void lost.push(bootId),
  });
  it.start();
  return {
    it,
    first: await alive.promise,
    lost,
    async [Symbol.asyncDispose]() {
      await it.stop();
      await database.close();
    },
  };
}
