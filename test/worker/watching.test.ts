import { defineJob } from "@waybill/core";
import { createJobs, pgDatabase, pgListener } from "@waybill/postgres";
import { Client } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp } from "./support/start-app.ts";

const job = defineJob({
  name: "shown",
  queue: "work",
  payload: z.object({}),
  result: z.object({ rows: z.int() }),
});

async function listen(app: App): Promise<AsyncDisposable & { readonly told: readonly string[] }> {
  const client = new Client({ connectionString: app.database.url });
  const told: string[] = [];
  client.on("notification", ({ payload = "" }) => told.push(payload));
  await client.connect();
  await client.query('listen "waybill.job"');
  return { told, [Symbol.asyncDispose]: () => client.end() };
}

test("whoever watches a job sees it run, get on and end, from another process than its worker", async () => {
  await using app = await startApp();
  await using hints = await listen(app);
  const { promise: goOn, resolve } = Promise.withResolvers<void>();
  await app.startWorker((worker) =>
    worker.handle(job, async (context) => {
      let done = 0;
      context.reportProgress({ stage: "reading", done, total: 4_000_000 });
      // A worker hears of a watch within half a second, and tells of changes after that.
      const reporting = setInterval(() => context.reportProgress({ done: (done += 1) }), 20);
      await goOn;
      clearInterval(reporting);
      context.reportProgress({ done: 1_000_000 });
      return { rows: 4 };
    }),
  );
  const jobs = createJobs({
    database: pgDatabase(app.database.pool),
    listener: pgListener(async () => {
      const client = new Client({ connectionString: app.database.url });
      await client.connect();
      return client;
    }),
  });
  const id = await app.enqueue("shown", {});
  const seen: string[] = [];
  const result = jobs.result(id, { job });
  const watched = (async () => {
    for await (const { state, progress } of jobs.watch(id)) {
      seen.push(`${state} ${progress?.percent ?? "-"}`);
    }
  })();
  await eventually(() => seen.includes("queued -"));

  await app.courier.round();
  await eventually(() => seen.includes("running 0"));
  await eventually(() => hints.told.includes(id));
  resolve();
  await watched;

  expect(await result).toEqual({ rows: 4 });
  expect(seen.at(0)).toBe("queued -");
  expect(seen.at(-1)).toBe("succeeded 25");
});

test("changes of jobs that nobody watches are told to nobody", async () => {
  await using app = await startApp();
  await using hints = await listen(app);
  await app.startWorker((worker) => worker.handle(job, () => ({ rows: 0 })));

  for (let n = 0; n < 20; n += 1) await app.enqueue("shown", {});
  await app.courier.round();
  await eventually(async () =>
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(20),
  );
  // Whatever was told before this one has arrived before it.
  await app.database.pool.query("select pg_notify('waybill.job', 'last')");

  await eventually(() => expect(hints.told).toEqual(["last"]));
});
