import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { startPrivatePostgres } from "../../scripts/services/index.ts";
import { eventually } from "../support/index.ts";
import { startApp, writeEffect } from "./support/start-app.ts";

test("E3: a database that crashes again and again under load loses no job and doubles no effect", async () => {
  await using server = await startPrivatePostgres();
  await using app = await startApp({ serverUrl: server.url });
  const payload = z.object({ n: z.int() });
  const retry = { maxAttempts: 20, initialDelayMs: 1, maxDelayMs: 1 } as const;
  const transactional = defineJob({ name: "transactional", queue: "work", payload, retry });
  const plain = defineJob({ name: "plain", queue: "work", payload, retry });
  const running = await app.startWorker((worker) => {
    worker.handleInTransaction(transactional, (job, tx) => writeEffect(tx, job));
    worker.handle(plain, (job) => job.transaction((tx) => writeEffect(tx, job)));
  });
  app.courier.start({ hurry: true });
  const ids: string[] = [];

  for (let crash = 0; crash < 3; crash += 1) {
    for (let n = 0; n < 60; n += 1) {
      ids.push(await app.send(n % 2 === 0 ? "transactional" : "plain", { n }));
    }
    await server.restart();
    await eventually(() => running.worker.status().database === "available");
  }

  await eventually(async () => {
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(ids.length);
    expect(await app.courier.depth("waybill.work")).toBe(0);
  });
  const doubled = await app.database.rows(
    "select e.job_id from effect as e join waybill.inbox as i on i.id = e.job_id where i.type = 'transactional' group by e.job_id having count(*) <> 1",
  );
  expect(doubled).toEqual([]);
  expect(
    await app.database.rows("select from waybill.inbox where crashes > 0 or state <> 'succeeded'"),
  ).toEqual([]);
}, 90_000);
