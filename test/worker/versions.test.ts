/** Versions of a job's payload: old and new workers, old and new producers, at the same time. */

import { defineJob } from "@waybill/core";
import { expect, test } from "vitest";
import { eventually } from "../support/index.ts";
import {
  fromV1,
  fromV2,
  job1,
  job3,
  payloads,
  releases,
  v2,
  v3,
} from "./support/payment-releases.ts";
import { type App, type RunningWorker, startApp } from "./support/start-app.ts";

const start = (app: App, version: number, paidBy: Map<string, string>): Promise<RunningWorker> =>
  app.startWorker((worker) => releases[version]?.(worker, paidBy));

test("H1, H2: a version newer than every worker is parked as it came, and runs when a worker knows it", async () => {
  await using app = await startApp();
  const paidBy = new Map<string, string>();
  const old = await start(app, 2, paidBy);
  const body = JSON.stringify(payloads[3]).replace(":", ":  ");
  const id = await app.enqueue("order.pay", undefined, { version: 3, body });
  await app.courier.round();
  const parked = (): Promise<Record<string, unknown>[]> =>
    app.database.rows("select reason, version, payload, detail from waybill.timer");
  await eventually(async () => expect(await parked()).toHaveLength(1));
  expect(await parked()).toEqual([
    {
      reason: "no_handler",
      version: 3,
      payload: body,
      detail: expect.stringContaining('version 3 of "order.pay"') as string,
    },
  ]);
  await old.stop();
  await start(app, 3, paidBy);

  await app.courier.round(true);

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await app.inbox(id)).toMatchObject({ attempt: 1, crashes: 0 });
  expect(paidBy.get(id)).toBe("Ada Lovelace 1250");
});

test("a version older than the first upcaster is parked and not guessed at", async () => {
  await using app = await startApp();
  const partial = defineJob({
    name: "order.pay",
    queue: "work",
    version: 3,
    payload: v3,
    upcasters: { 2: fromV2 },
  });
  await app.startWorker((worker) => worker.handle(partial, () => undefined));

  const old = await app.enqueue("order.pay", payloads[1], { version: 1 });
  const young = await app.enqueue("order.pay", payloads[2], { version: 2 });
  await app.courier.round();

  await eventually(async () =>
    expect(await app.inbox(young)).toMatchObject({ state: "succeeded" }),
  );
  await eventually(async () =>
    expect(await app.database.rows("select id, reason from waybill.timer")).toEqual([
      { id: old, reason: "no_handler" },
    ]),
  );
  expect(await app.inbox(old)).toBeUndefined();
});

test("handlers of two versions in one worker each get their own", async () => {
  await using app = await startApp();
  const ran: string[] = [];
  await app.startWorker((worker) => {
    worker.handle(job1, (job) => void ran.push(`v1 ${job.payload.name}`));
    worker.handle(job3, (job) => void ran.push(`v3 ${job.payload.cents}`));
  });

  for (const version of [1, 2, 3]) {
    await app.enqueue("order.pay", payloads[version], { version });
  }
  await app.courier.round();

  await eventually(() => ran.length === 3);
  expect(ran.toSorted()).toEqual(["v1 Ada Lovelace", "v3 1250", "v3 1250"]);
});

test.each([
  ["that throws", { 1: fromV1 }, /upcaster from version 1 to 2 threw: [^]*name/],
  [
    "whose answer does not fit",
    { 1: (payload: unknown) => payload },
    /Cannot accept the payload of job "order\.pay": .*first/,
  ],
])(
  "H2: a payload with an upcaster %s is dead-lettered at once as invalid, with its own bytes and version",
  async (_what, upcasters, message) => {
    await using app = await startApp();
    let runs = 0;
    const broken = defineJob({
      name: "order.pay",
      queue: "work",
      version: 2,
      payload: v2,
      upcasters,
    });
    await app.startWorker((worker) =>
      worker.handle(broken, () => {
        runs += 1;
      }),
    );
    app.courier.start({ hurry: true });
    const body = '{ "nom":"Ada Lovelace",\t"amount":1.50 }';

    const id = await app.enqueue("order.pay", undefined, { body });

    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
    expect(await app.inbox(id)).toMatchObject({ attempt: 1, deaths: 1 });
    expect(
      await app.database.rows(
        "select failure_class, message, payload, version from waybill.dead_letter",
      ),
    ).toEqual([
      {
        failure_class: "validation",
        message: expect.stringMatching(message) as string,
        payload: body,
        version: 1,
      },
    ]);
    const dead = await app.courier.next("waybill.work.dlq");
    expect(dead.content.toString()).toBe(body);
    expect(runs).toBe(0);
  },
);
