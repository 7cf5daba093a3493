import { defineJob } from "@waybill/core";
import { createJobs, pgDatabase } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startApp } from "./support/start-app.ts";

const module = new URL("./modules/isolated.ts", import.meta.url);
const asked = z.looseObject({});
const computed = defineJob({
  name: "compute",
  queue: "work",
  payload: asked,
  result: z.looseObject({ isMainThread: z.boolean() }),
});
const endless = defineJob({
  name: "endless",
  queue: "work",
  payload: asked,
  timeoutMs: 300,
  hardTimeoutMs: 600,
  retry: { maxAttempts: 1 },
});
const untilCancelled = defineJob({ name: "until-cancelled", queue: "work", payload: asked });
const reporting = defineJob({ name: "reporting", queue: "work", payload: asked });
const light = defineJob({ name: "light", queue: "work", payload: asked });

test("a job runs in a thread as it would here: with its payload, its progress and its result", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => {
    worker.handle(computed, { isolation: "thread", module });
    worker.handle(reporting, { isolation: "thread", module, exportName: "report" });
  });

  const id = await app.enqueue("compute", { n: 5 });
  const told = await app.enqueue("reporting", {});
  await app.courier.round();

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  const [row] = await app.database.rows<{ result: string }>(
    "select result from waybill.result where id = $1",
    [id],
  );
  expect(JSON.parse(row?.result ?? "null")).toMatchObject({
    payload: { n: 5 },
    isMainThread: false,
  });
  await eventually(async () => expect(await app.inbox(told)).toMatchObject({ state: "succeeded" }));
  expect(
    await app.database.rows(
      "select stage, done::integer, total::integer from waybill.progress where id = $1",
      [told],
    ),
  ).toEqual([{ stage: "writing", done: 1, total: 3 }]);
});

test("a busy loop in a thread ends at its hard timeout, and its neighbours notice nothing", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => {
    worker.handle(endless, { isolation: "thread", module, exportName: "loopForEver" });
    worker.handle(light, () => undefined);
  });

  const id = await app.send("endless", {});
  const others: string[] = [];
  for (let n = 0; n < 20; n += 1) others.push(await app.send("light", {}));

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
  expect(await app.database.rows("select failure_class from waybill.failure")).toEqual([
    { failure_class: "timeout" },
  ]);
  for (const other of others) {
    await eventually(async () =>
      expect(await app.inbox(other)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
    );
  }
});

test("a busy loop in a thread is ended by a cancel", async () => {
  await using app = await startApp();
  const running = await app.startWorker(
    (worker) =>
      worker.handle(untilCancelled, { isolation: "thread", module, exportName: "loopForEver" }),
    { abandonMs: 200 },
  );
  const id = await app.enqueue("until-cancelled", {});
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await createJobs({ database: pgDatabase(app.database.pool) }).cancel(id);

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "cancelled" }));
  await eventually(() => running.worker.status().leftBehind === 0);
});
