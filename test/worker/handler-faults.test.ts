/** Handlers that do what handlers should not: hang, leak, end their own transaction. */

import { setImmediate as turn } from "node:timers/promises";
import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { createPool, eventually } from "../support/index.ts";
import { type App, startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 } as const;
const once = { ...retry, maxAttempts: 1 };
const quick = defineJob({ name: "quick", queue: "work", payload, retry });

/** Transactions that somebody has left open. */
const openTransactions = (app: App): Promise<Record<string, unknown>[]> =>
  app.database.rows(
    "select query from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
  );

test("G1: a plain handler that hangs loses its slot to the next attempt, and what it returns and writes later counts for nothing", async () => {
  await using app = await startApp();
  const hanging = defineJob({
    name: "hanging",
    queue: "work",
    payload,
    result: z.object({ by: z.int() }),
    timeoutMs: 200,
    retry,
  });
  const { promise: later, resolve: goOn } = Promise.withResolvers<void>();
  const refusals: unknown[] = [];
  await app.startWorker(
    (worker) =>
      worker.handle(hanging, async (job) => {
        if (job.attempt === 1) {
          await later;
          await job.transaction((tx) => writeEffect(tx, job)).catch((e) => refusals.push(e));
        }
        return { by: job.attempt };
      }),
    { queues: { work: { concurrency: 1 } }, abandonMs: 50 },
  );
  app.courier.start({ hurry: true });

  const id = await app.send("hanging", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  goOn();
  await eventually(() => expect(refusals).toHaveLength(1));
  await turn();

  expect(refusals).toEqual([expect.objectContaining({ code: "WAYBILL_JOB_TIMEOUT" })]);
  expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 2, crashes: 0 });
  expect(await app.database.rows("select result from waybill.result")).toEqual([
    { result: '{"by":2}' },
  ]);
  expect(await app.database.rows("select attempt, failure_class from waybill.failure")).toEqual([
    { attempt: 1, failure_class: "timeout" },
  ]);
  expect(await app.effects(id)).toBe(0);
});

test("G4: a handler that awaits none of its queries, good or bad, leaves no transaction open, and only whole work is kept", async () => {
  await using app = await startApp();
  const careless = defineJob({ name: "careless", queue: "work", payload, retry: once });
  await app.startWorker((worker) =>
    worker.handleInTransaction(careless, (context, tx) => {
      void writeEffect(tx, context);
      if (context.payload.n % 2 === 1) void tx.query("select nonsense").catch(() => undefined);
      void tx.query("select pg_sleep(0.005)");
    }),
  );
  const ids: string[] = [];
  for (let n = 0; n < 60; n += 1) ids.push(await app.send("careless", { n }));

  await eventually(async () => {
    const ended = await app.database.rows(
      "select state, count(*)::int from waybill.inbox group by state order by state",
    );
    expect(ended).toEqual([
      { state: "failed", count: 30 },
      { state: "succeeded", count: 30 },
    ]);
  });

  for (const [n, id] of ids.entries()) expect(await app.effects(id)).toBe(n % 2 === 0 ? 1 : 0);
  expect(await openTransactions(app)).toEqual([]);
});

test("G4: jobs that find the pool's connections leaked by a handler wait for them, fail nothing, and run when they are back", async () => {
  await using app = await startApp();
  const leaking = defineJob({ name: "leaking", queue: "work", payload, retry });
  const kept: PoolClient[] = [];
  const pool = createPool(app.database.url, 3);
  await using _pool = { [Symbol.asyncDispose]: () => pool.end() };
  await app.startWorker(
    (worker) => {
      worker.handle(leaking, async () => void kept.push(await pool.connect()));
      worker.handleInTransaction(quick, (job, tx) => writeEffect(tx, job));
    },
    { database: pgDatabase<PoolClient>(pool), queues: { work: { concurrency: 3 } } },
  );
  for (let n = 0; n < 3; n += 1) await app.send("leaking", { n });
  await eventually(() => expect(kept).toHaveLength(3));
  for (let n = 0; n < 10; n += 1) await app.send("quick", { n });
  await eventually(() => expect(pool.waitingCount).toBe(3));

  for (const client of kept) client.release();

  await eventually(async () => expect(await app.effects()).toBe(10));
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1 and crashes = 0",
      ),
    ).toHaveLength(13),
  );
  expect(await app.database.rows("select from waybill.failure")).toEqual([]);
});

test.each([
  ["commits its transaction", (tx: PoolClient) => tx.query("commit")],
  ["rolls its transaction back", (tx: PoolClient) => tx.query("rollback")],
  ["begins another one", (tx: PoolClient) => tx.query("begin")],
  ["releases its client", async (tx: PoolClient) => tx.release()],
  ["commits in a way that is not seen at once", (tx: PoolClient) => tx.query("select 1; commit")],
])(
  "G5: a handler that %s fails its attempt, and other jobs on its pool notice nothing",
  async (_what, misuse) => {
    await using app = await startApp();
    const misused = defineJob({ name: "misused", queue: "work", payload, retry: once });
    await app.startWorker((worker) => {
      worker.handleInTransaction(misused, async (job, tx) => {
        await misuse(tx);
        await writeEffect(tx, job);
      });
      worker.handleInTransaction(quick, (job, tx) => writeEffect(tx, job));
    });
    const bad: string[] = [];
    const good: string[] = [];
    for (let n = 0; n < 10; n += 1) {
      bad.push(await app.send("misused", { n }));
      good.push(await app.send("quick", { n }));
    }

    await eventually(async () => {
      for (const id of bad) expect(await app.inbox(id)).toMatchObject({ state: "failed" });
      for (const id of good) expect(await app.inbox(id)).toMatchObject({ state: "succeeded" });
    });
    for (const id of good) expect(await app.effects(id)).toBe(1);
    expect(await app.database.rows("select distinct failure_class from waybill.failure")).toEqual([
      { failure_class: "unknown" },
    ]);
    expect(await openTransactions(app)).toEqual([]);
  },
);

test("G5: a transaction that a handler keeps for later is refused later, and nobody's work is written by it", async () => {
  await using app = await startApp();
  const kept: PoolClient[] = [];
  const refusals: unknown[] = [];
  await app.startWorker(
    (worker) =>
      worker.handleInTransaction(quick, async (job, tx) => {
        // Of the job before this one; by now its connection may be this job's.
        for (const old of kept) {
          await old.query("insert into effect values ($1, 0)", [job.id]).catch((e: unknown) => {
            refusals.push(e);
          });
        }
        kept.push(tx);
        await writeEffect(tx, job);
      }),
    { queues: { work: { concurrency: 1 } } },
  );

  for (let n = 0; n < 5; n += 1) await app.send("quick", { n });

  await eventually(async () =>
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(5),
  );
  expect(refusals).toHaveLength(1 + 2 + 3 + 4);
  for (const refusal of refusals) {
    expect(refusal).toMatchObject({ code: "WAYBILL_TRANSACTION_MISUSED" });
  }
  expect(await app.database.rows("select from effect where attempt = 0")).toEqual([]);
  expect(await app.effects()).toBe(5);
});
