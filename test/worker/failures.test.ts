import { defineJob, NonRetryableError, RetryAfterError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 4, initialDelayMs: 1_000, maxDelayMs: 60_000 } as const;
const flaky = defineJob({ name: "flaky", queue: "work", payload, retry });

async function ends(app: App, id: string, state: string): Promise<void> {
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state }));
}

test("F1: a handler that always throws runs its attempts, no more, and is then dead-lettered with its bytes", async () => {
  await using app = await startApp();
  let runs = 0;
  await app.startWorker((worker) =>
    worker.handle(flaky, () => {
      runs += 1;
      throw new Error(`no luck, run ${runs}`);
    }),
  );
  app.courier.start({ hurry: true });
  const body = '{ "n":1,\t"extra": 1.50 }';

  const id = await app.enqueue("flaky", undefined, { body, headers: { tenant: "acme" } });
  await ends(app, id, "failed");

  expect(runs).toBe(4);
  expect(await app.inbox(id)).toMatchObject({ attempt: 4, deaths: 1, crashes: 0 });
  expect(
    await app.database.rows(
      "select attempt, failure_class, terminal from waybill.failure order by failure_id",
    ),
  ).toEqual([
    { attempt: 1, failure_class: "unknown", terminal: false },
    { attempt: 2, failure_class: "unknown", terminal: false },
    { attempt: 3, failure_class: "unknown", terminal: false },
    { attempt: 4, failure_class: "unknown", terminal: true },
  ]);
  const message = await app.courier.next("waybill.work.dlq");
  expect(message.content.toString()).toBe(body);
  expect(message.properties).toMatchObject({ messageId: id, type: "flaky" });
  expect(message.headers).toMatchObject({
    tenant: "acme",
    "waybill-error": "no luck, run 4",
    "waybill-error-class": "unknown",
    "waybill-attempts": "4",
    "waybill-queue": "work",
    "waybill-death": "1",
    "waybill-failed-at": expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  });
  expect(await app.courier.depth("waybill.work")).toBe(0);
});

test("F1: delays between attempts are the policy's, with jitter", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handle(flaky, () => {
      throw new Error("no luck");
    }),
  );

  for (let n = 0; n < 40; n += 1) await app.send("flaky", { n });

  const waits = (): Promise<{ ms: number }[]> =>
    app.database.rows(
      "select (extract(epoch from fire_at - created_at) * 1000)::float8 as ms from waybill.timer where reason = 'retry' and dispatch = 2",
    );
  await eventually(async () => expect(await waits()).toHaveLength(40));
  const all = (await waits()).map(({ ms }) => ms);
  expect(Math.max(...all)).toBeLessThan(1_100);
  expect(Math.max(...all) - Math.min(...all)).toBeGreaterThan(300);
});

test("a Retry-After is the least delay of the next attempt", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handle(flaky, () => {
      throw new RetryAfterError("slow down", 90_000);
    }),
  );

  const id = await app.send("flaky", { n: 1 });
  await ends(app, id, "retry_waiting");

  const [timer] = await app.database.rows<{ ms: string; reason: string; dispatch: number }>(
    "select extract(epoch from fire_at - created_at) * 1000 as ms, reason, dispatch from waybill.timer",
  );
  expect(timer).toMatchObject({ reason: "retry", dispatch: 2 });
  expect(Number(timer?.ms)).toBeGreaterThanOrEqual(89_900);
  expect(await app.database.rows("select failure_class from waybill.failure")).toEqual([
    { failure_class: "rate_limited" },
  ]);
});

test.each([
  ["NonRetryableError", () => new NonRetryableError("never"), "validation"],
  [
    "NonRetryableError with a class",
    () => new NonRetryableError("not allowed", { failureClass: "permission" }),
    "permission",
  ],
])("%s dead-letters at once", async (_name, make, failureClass) => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handleInTransaction(flaky, async (context, tx) => {
      await writeEffect(tx, context);
      throw make();
    }),
  );

  const id = await app.send("flaky", { n: 1 });
  await ends(app, id, "failed");

  expect(await app.inbox(id)).toMatchObject({ attempt: 1 });
  expect(await app.effects(id)).toBe(0);
  expect(await app.database.rows("select failure_class from waybill.dead_letter")).toEqual([
    { failure_class: failureClass },
  ]);
});

test("F4, G3: whatever a handler throws is recorded: null, texts, NUL bytes, lone surrogates, 10 MB", async () => {
  await using app = await startApp();
  const thrown: readonly unknown[] = [
    null,
    undefined,
    "a text",
    42,
    { message: "an object\u0000 with NUL" },
    new Error(`\ud800 ${"x".repeat(10_000_000)}\u0000`),
    Object.create(null),
    new Error("with a cause", { cause: "\u0000\udfff" }),
  ];
  const once = defineJob({ name: "once", queue: "work", payload, retry: { maxAttempts: 1 } });
  await app.startWorker((worker) =>
    worker.handle(once, (context) => {
      const value = thrown[context.payload.n];
      // oxlint-disable-next-line typescript/only-throw-error -- handlers do
      throw value;
    }),
  );

  for (const n of thrown.keys()) await app.send("once", { n });

  const failed = (): Promise<unknown[]> =>
    app.database.rows("select from waybill.inbox where state = 'failed'");
  await eventually(async () => expect(await failed()).toHaveLength(thrown.length));
  expect(
    await app.database.rows("select from waybill.failure where length(message) > 2048"),
  ).toEqual([]);
});

test("a cancel that is asked for while the job runs is honoured when its attempt fails", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handle(flaky, async () => {
      await app.database.pool.query("update waybill.inbox set cancel_requested_at = now()");
      throw new Error("no luck");
    }),
  );

  const id = await app.send("flaky", { n: 1 });
  await ends(app, id, "cancelled");

  expect(await app.database.rows("select from waybill.timer")).toEqual([]);
  expect(await app.database.rows("select from waybill.dead_letter")).toEqual([]);
  expect(await app.database.rows("select attempt from waybill.failure")).toEqual([{ attempt: 1 }]);
});

test("K2: a logger that throws keeps no job from its end", async () => {
  await using app = await startApp();
  const boom = (): never => {
    throw new Error("the log is full");
  };
  const logger = { child: boom, debug: boom, info: boom, warn: boom, error: boom };
  await app.startWorker(
    (worker) =>
      worker.handle(flaky, (context) => {
        if (context.payload.n === 1) throw new NonRetryableError("never");
      }),
    { logger },
  );

  const bad = await app.send("flaky", { n: 1 });
  const good = await app.send("flaky", { n: 2 });

  await ends(app, bad, "failed");
  await ends(app, good, "succeeded");
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("a retry of one subscription never reaches another, nor the topic", async () => {
  await using app = await startApp();
  const { defineEvent } = await import("@waybill/core");
  const paid = defineEvent({ name: "order.paid", payload });
  const calls: string[] = [];
  await app.startWorker(
    (worker) => {
      worker.on(paid, { subscription: "billing" }, (event) => {
        calls.push(`billing ${event.attempt}`);
        if (event.attempt === 1) throw new Error("once");
      });
      worker.on(paid, { subscription: "shipping" }, (event) => {
        calls.push(`shipping ${event.attempt}`);
      });
    },
    { queues: {} },
  );
  app.courier.start({ hurry: true });

  const id = await app.enqueue("order.paid", { n: 1 }, { kind: "event", queue: null });

  const states = (): Promise<unknown[]> =>
    app.database.rows(
      "select queue, state, attempt from waybill.inbox where id = $1 order by queue",
      [id],
    );
  await eventually(async () =>
    expect(await states()).toEqual([
      { queue: "billing", state: "succeeded", attempt: 2 },
      { queue: "shipping", state: "succeeded", attempt: 1 },
    ]),
  );
  expect(calls.toSorted()).toEqual(["billing 1", "billing 2", "shipping 1"]);
});
