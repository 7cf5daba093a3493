/** Versions of a job's payload: old and new workers, old and new producers, at the same time. */

import { defineJob } from "@waybill/core";
import type { Worker } from "@waybill/worker";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type Line, type Running, startLine } from "../support/line.ts";
import { type App, type RunningWorker, startApp, writeEffect } from "./support/start-app.ts";

// The second version splits a field, the third turns a text into a number.
const v1 = z.strictObject({ name: z.string(), amount: z.string() });
const v2 = z.strictObject({ first: z.string(), last: z.string(), amount: z.string() });
const v3 = z.strictObject({ first: z.string(), last: z.string(), cents: z.int() });

const fromV1 = (payload: unknown): unknown => {
  const { name, ...rest } = v1.parse(payload);
  const [first, last] = name.split(" ");
  return { ...rest, first, last };
};
const fromV2 = (payload: unknown): unknown => {
  const { amount, ...rest } = v2.parse(payload);
  return { ...rest, cents: Math.round(Number(amount) * 100) };
};

const job1 = defineJob({ name: "order.pay", queue: "work", payload: v1 });
const job2 = defineJob({
  name: "order.pay",
  queue: "work",
  version: 2,
  payload: v2,
  upcasters: { 1: fromV1 },
});
const job3 = defineJob({
  name: "order.pay",
  queue: "work",
  version: 3,
  payload: v3,
  upcasters: { 1: fromV1, 2: fromV2 },
});

const payloads: Readonly<Record<number, object>> = {
  1: { name: "Ada Lovelace", amount: "12.50" },
  2: { first: "Ada", last: "Lovelace", amount: "12.50" },
  3: { first: "Ada", last: "Lovelace", cents: 1250 },
};

/** What handlers of any version make of the payload, which is the same person and the same amount. */
const paid = (first: string, last: string, cents: number): string => `${first} ${last} ${cents}`;

type Release = (worker: Worker<PoolClient>, paidBy: Map<string, string>) => void;

const releases: Readonly<Record<number, Release>> = {
  1: (worker, paidBy) =>
    worker.handleInTransaction(job1, async (job, tx) => {
      const [first = "", last = ""] = job.payload.name.split(" ");
      paidBy.set(job.id, paid(first, last, Number(job.payload.amount) * 100));
      await writeEffect(tx, job);
    }),
  2: (worker, paidBy) =>
    worker.handleInTransaction(job2, async (job, tx) => {
      const { first, last, amount } = job.payload;
      paidBy.set(job.id, paid(first, last, Number(amount) * 100));
      await writeEffect(tx, job);
    }),
  3: (worker, paidBy) =>
    worker.handleInTransaction(job3, async (job, tx) => {
      const { first, last, cents } = job.payload;
      paidBy.set(job.id, paid(first, last, cents));
      await writeEffect(tx, job);
    }),
};

const start = (app: App, version: number, paidBy: Map<string, string>): Promise<RunningWorker> =>
  app.startWorker((worker) => releases[version]?.(worker, paidBy));

/** Starts a worker of a release; resolves when it consumes. */
async function join(
  line: Line,
  version: number,
  paidBy: Map<string, string>,
): Promise<Running<Worker<PoolClient>>> {
  const running = line.startWorker([], (worker) => releases[version]?.(worker, paidBy), {
    queues: { work: { concurrency: 10 } },
  });
  await eventually(() =>
    running.it.status().queues.some(({ consumer }) => consumer === "consuming"),
  );
  return running;
}

/** Parked messages come back now and not in half a minute, to whoever is there. */
const hurry = (line: Line): Promise<unknown[]> =>
  line.database.rows(
    "update waybill.timer set fire_at = clock_timestamp() where reason = 'no_handler'",
  );

test("H2: a rolling deploy of two new versions, with producers of all three, loses no job and spends no attempt", async () => {
  await using line = await startLine();
  const { database } = line;
  await database.rows("create table effect (job_id uuid not null, attempt integer not null)");
  const paidBy = new Map<string, string>();
  const fleet: Running<Worker<PoolClient>>[] = [];
  for (let n = 0; n < 3; n += 1) fleet.push(await join(line, 1, paidBy));
  line.startRelay({ idlePollMs: 50 });
  let enqueued = 0;
  const produce = async (...versions: number[]): Promise<void> => {
    for (const version of versions) {
      const one = { type: "order.pay", queue: "work", version, payload: payloads[version] };
      await database.rows("select id from waybill.enqueue($1::jsonb)", [
        JSON.stringify(Array.from({ length: 200 }, () => one)),
      ]);
      enqueued += 200;
    }
    await hurry(line);
  };

  await produce(1, 1);
  for (const next of [2, 3]) {
    // New producers come first, so that old workers meet what they do not know.
    for (const [n, old] of [...fleet].entries()) {
      await produce(1, next, next - 1);
      fleet[n] = await join(line, next, paidBy);
      await produce(next);
      await old.stop();
    }
  }
  await produce(3, 2, 1);

  await eventually(
    async () => {
      await hurry(line);
      const rows = await database.rows(
        "select state, attempt, crashes, count(*)::int from waybill.inbox group by 1, 2, 3",
      );
      expect(rows).toEqual([{ state: "succeeded", attempt: 1, crashes: 0, count: enqueued }]);
    },
    { deadlineMs: 90_000, intervalMs: 200 },
  );
  expect(enqueued).toBe(5_800);
  expect(paidBy.size).toBe(enqueued);
  expect(new Set(paidBy.values())).toEqual(new Set(["Ada Lovelace 1250"]));
  expect(
    await database.rows(
      "select count(*)::int as effects, count(distinct job_id)::int as jobs from effect",
    ),
  ).toEqual([{ effects: enqueued, jobs: enqueued }]);
  for (const table of ["failure", "dead_letter", "timer"]) {
    expect(await database.rows(`select from waybill.${table}`)).toEqual([]);
  }
});

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
