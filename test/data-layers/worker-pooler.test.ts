import { defineJob } from "@waybill/core";
import { pgDatabase } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";

import { createPool, eventually } from "../support/index.ts";
import { startApp, writeEffect } from "../worker/support/start-app.ts";
import { startPgBouncer } from "./pgbouncer.ts";

test("E9: a worker behind a transaction pooler runs, retries and dead-letters as on a direct connection", async () => {
  await using app = await startApp();
  await using pooler = await startPgBouncer(app.database.url);
  const payload = z.object({ n: z.int() });
  const retry = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 } as const;
  const good = defineJob({ name: "good", queue: "work", payload, retry });
  const plain = defineJob({ name: "plain", queue: "work", payload, retry });
  const bad = defineJob({ name: "bad", queue: "work", payload, retry });
  const pool = createPool(pooler.url, 10);
  const running = await app.startWorker(
    (worker) => {
      worker.handleInTransaction(good, async (job, tx) => {
        await writeEffect(tx, job);
        if (job.attempt === 1 && job.payload.n % 10 === 0) throw new Error("once");
      });
      worker.handle(plain, (job) => job.transaction((tx) => writeEffect(tx, job)));
      worker.handle(bad, () => {
        throw new Error("always");
      });
    },
    { database: pgDatabase(pool), databaseUrl: pooler.url },
  );
  app.courier.start({ hurry: true });

  for (let n = 0; n < 60; n += 1) {
    for (const type of ["good", "plain"]) await app.send(type, { n });
    if (n % 20 === 0) await app.send("bad", { n });
  }
  await app.courier.publish({ routingKey: "waybill.work", content: "{broken" });

  const states = (): Promise<unknown[]> =>
    app.database.rows(
      "select state, count(*)::int from waybill.inbox group by state order by state",
    );
  await eventually(async () =>
    expect(await states()).toEqual([
      { state: "failed", count: 4 },
      { state: "succeeded", count: 120 },
    ]),
  );
  expect(await app.effects()).toBe(120);
  // A session lock would stay with one of the pooler's connections: the lease alone says who lives.
  expect(
    await app.database.rows(
      "select lock_key, waybill.worker_alive(id) as alive from waybill.worker",
    ),
  ).toEqual([{ lock_key: null, alive: true }]);
  await running.stop();
  await pool.end();
});
