import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { createRelay } from "@waybill/relay";
import { createPool, eventually } from "../support/index.ts";
import { startApp, testLogger, writeEffect } from "./support/start-app.ts";

const job = defineJob({ name: "effect", queue: "work", payload: z.object({}) });

test("E5: a server that has become read-only is no server to work with: nothing is acked, no attempt is spent, and all is done when a writable one answers", async () => {
  await using app = await startApp();
  await using running = await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );
  await using relay = createRelay({
    databaseUrl: app.database.url,
    broker: { url: app.vhost.url, prefix: app.vhost.prefix },
    logger: testLogger,
  });
  const relaying = relay.run();
  await eventually(() => relay.status().state === "leading");
  const turn = async (state: "on" | "off"): Promise<void> => {
    // From another database: the sessions of this one are ended, as a failover ends them.
    const url = new URL(app.database.url);
    url.pathname = "/postgres";
    const pool = createPool(url.href, 1);
    const name = app.database.name;
    await pool.query(`alter database "${name}" set default_transaction_read_only = ${state}`);
    await pool.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", [
      name,
    ]);
    await pool.end();
  };
  await app.enqueue("effect", {});
  await eventually(async () => expect(await app.effects()).toBe(1));

  await turn("on");
  for (let n = 0; n < 20; n += 1) await app.send("effect", {});
  await eventually(() => running.worker.status().database === "unavailable");
  await eventually(() => relay.status().state === "recovering");
  await eventually(() => expect(relay.status().lastError).toMatch(/read-only/));
  // One may be held whose claim got no answer; none is acked.
  await eventually(async () =>
    expect(await app.courier.depth("waybill.work")).toBeGreaterThanOrEqual(15),
  );
  expect(await app.effects()).toBe(1);

  await turn("off");
  await eventually(async () => expect(await app.effects()).toBe(21));
  await app.enqueue("effect", {});
  await eventually(async () => expect(await app.effects()).toBe(22));
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select state, attempt, crashes, count(*)::int as jobs from waybill.inbox group by 1, 2, 3",
      ),
    ).toEqual([{ state: "succeeded", attempt: 1, crashes: 0, jobs: 22 }]),
  );
  expect(await app.courier.depth("waybill.work")).toBe(0);
  await relay[Symbol.asyncDispose]();
  await relaying;
});
