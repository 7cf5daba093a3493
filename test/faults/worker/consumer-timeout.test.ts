import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { startPrivateRabbitmq } from "../../../scripts/services/index.ts";
import { eventually } from "../../support/index.ts";
import { startApp, writeEffect } from "../../worker/support/start-app.ts";

test("D3: a job that outlasts the broker's consumer timeout runs once, and so do its neighbours", async () => {
  // The broker looks once a minute. The worker does not know of it, and holds its deliveries for longer.
  await using server = await startPrivateRabbitmq({ config: "consumer_timeout = 5000" });
  await using app = await startApp({
    rabbitmqUrl: server.url,
    managementUrl: server.managementUrl,
  });
  const job = defineJob({ name: "long", queue: "work", payload: z.object({ n: z.int() }) });
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const runs: number[] = [];
  await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        runs.push(context.payload.n);
        await writeEffect(tx, context);
        await finish;
      }),
    { queues: { work: { concurrency: 5 } } },
  );
  for (let n = 0; n < 3; n += 1) await app.send("long", { n });
  await eventually(() => runs.length === 3);

  // Perhaps of a channel whose consumer was renewed meanwhile: the deliveries go back to the queue all the same.
  await eventually(
    async () => expect(await server.log()).toMatch(/timed out waiting for .*acknowledgement/),
    { deadlineMs: 150_000, intervalMs: 500 },
  );
  const late = await app.send("long", { n: 3 });
  await eventually(() => runs.length === 4);
  goOn();
  app.courier.start({ hurry: true });

  await eventually(async () => {
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(4);
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  });
  expect(runs.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
  expect(await app.effects()).toBe(4);
  expect(await app.inbox(late)).toMatchObject({ attempt: 1, crashes: 0 });
}, 240_000);
