import { defineJob, LeaseLostError } from "@waybill/core";
import { enqueueIn } from "./support/enqueue-in.ts";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "order.place", queue: "work", payload });
const retry = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 } as const;

test("a transactional handler's effect and its job's end commit together", async () => {
  await using app = await startApp();
  await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );

  const id = await app.enqueue("order.place", { n: 1 });
  await app.courier.round();

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(await app.effects(id)).toBe(1);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("a handler gets the job as the producer gave it", async () => {
  await using app = await startApp();
  const seen: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(
      job,
      ({
        id,
        name,
        payload: given,
        attempt,
        correlationId,
        headers,
        priority,
        enqueuedAt,
        signal,
      }) => {
        seen.push({ id, name, given, attempt, correlationId, headers, priority });
        seen.push(enqueuedAt instanceof Date && !signal.aborted);
      },
    ),
  );

  const id = await app.enqueue(
    "order.place",
    { n: 7 },
    { correlation_id: "c-1", headers: { tenant: "acme" }, priority: 5 },
  );
  await app.courier.round();

  await eventually(() => seen.length === 2);
  expect(seen).toEqual([
    {
      id,
      name: "order.place",
      given: { n: 7 },
      attempt: 1,
      correlationId: "c-1",
      headers: { tenant: "acme" },
      priority: 5,
    },
    true,
  ]);
});

test("results are stored as JSON, for both kinds of handlers", async () => {
  await using app = await startApp();
  const result = z.object({ sum: z.int() });
  const plain = defineJob({ name: "sum.plain", queue: "work", payload, result });
  const inTransaction = defineJob({ name: "sum.tx", queue: "work", payload, result });
  await app.startWorker((worker) => {
    worker.handle(plain, (context) => ({ sum: context.payload.n + 1 }));
    worker.handleInTransaction(inTransaction, (context) => ({ sum: context.payload.n + 2 }));
  });

  const ids = [await app.send("sum.plain", { n: 1 }), await app.send("sum.tx", { n: 1 })];

  const read = (): Promise<unknown[]> =>
    app.database.rows("select result from waybill.result order by array_position($1::uuid[], id)", [
      ids,
    ]);
  await eventually(async () => expect(await read()).toHaveLength(2));
  expect(await read()).toEqual([{ result: '{"sum":2}' }, { result: '{"sum":3}' }]);
});

test.each([
  ["does not fit its schema", () => ({ sum: "three" })],
  ["is larger than 64 KiB", () => ({ sum: 1, text: "x".repeat(70_000) })],
  ["is not JSON", () => ({ sum: 1, text: new Date() })],
])("a result that %s fails the attempt before anything commits", async (_what, give) => {
  await using app = await startApp();
  const result = z.object({ sum: z.int() }).loose();
  const definition = defineJob({ name: "sum.bad", queue: "work", payload, result });
  await app.startWorker((worker) =>
    worker.handleInTransaction(definition, async (context, tx) => {
      await writeEffect(tx, context);
      return give() as { sum: number };
    }),
  );

  const id = await app.send("sum.bad", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
  expect(await app.effects(id)).toBe(0);
  expect(
    await app.database.rows("select failure_class, message from waybill.dead_letter"),
  ).toMatchObject([{ failure_class: "validation", message: expect.stringContaining("(result)") }]);
});

test("G6: follow-up jobs exist if and only if their parent commits", async () => {
  await using app = await startApp();
  const parent = defineJob({ name: "parent", queue: "work", payload, retry });
  await app.startWorker((worker) =>
    worker.handleInTransaction(parent, async (context, tx) => {
      for (let n = 0; n < 200; n += 1) await enqueueIn(tx, "child", { n });
      if (context.attempt < 3) throw new Error("after the children");
    }),
  );
  app.courier.start({ hurry: true });

  const id = await app.send("parent", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(
    await app.database.rows("select count(*)::int from waybill.outbox where type = 'child'"),
  ).toEqual([{ count: 200 }]);
});

test("a constraint that fails at COMMIT fails the attempt, and nothing of it stays", async () => {
  await using app = await startApp();
  await app.database.pool.query(
    "create table strict (n integer, constraint strict_once unique (n) deferrable initially deferred)",
  );
  const strict = defineJob({ name: "strict", queue: "work", payload, retry });
  let runs = 0;
  const running = await app.startWorker((worker) =>
    worker.handleInTransaction(strict, async (context, tx) => {
      runs += 1;
      await writeEffect(tx, context);
      await tx.query("insert into strict values (1), (1)");
    }),
  );
  app.courier.start({ hurry: true });

  const id = await app.send("strict", { n: 1 });
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
  await running.stop();
  await app.startWorker((worker) => worker.handleInTransaction(strict, () => void (runs += 1)));

  expect(runs).toBe(3);
  expect(await app.effects(id)).toBe(0);
  expect(await app.inbox(id)).toMatchObject({ attempt: 3, deaths: 1 });
});

test("E6: a serialization failure or deadlock is run again at once and spends no attempt", async () => {
  await using app = await startApp();
  let runs = 0;
  await app.startWorker((worker) =>
    worker.handleInTransaction(job, async (context, tx) => {
      runs += 1;
      await writeEffect(tx, context);
      if (runs === 1) await tx.query("do $$ begin raise sqlstate '40001'; end $$");
      if (runs === 2) await tx.query("do $$ begin raise sqlstate '40P01'; end $$");
    }),
  );

  const id = await app.send("order.place", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(runs).toBe(3);
  expect(await app.inbox(id)).toMatchObject({ attempt: 1 });
  expect(await app.effects(id)).toBe(1);
  expect(await app.database.rows("select * from waybill.failure")).toEqual([]);
});

test("E6: a serialization failure that goes on fails the attempt after three more tries", async () => {
  await using app = await startApp();
  const unlucky = defineJob({
    name: "unlucky",
    queue: "work",
    payload,
    retry: { ...retry, maxAttempts: 1 },
  });
  let runs = 0;
  await app.startWorker((worker) =>
    worker.handleInTransaction(unlucky, async (_context, tx) => {
      runs += 1;
      await tx.query("do $$ begin raise sqlstate '40001'; end $$");
    }),
  );

  const id = await app.send("unlucky", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
  expect(runs).toBe(4);
});

test("G4: an aborted or leaking transaction of one job never reaches another job", async () => {
  await using app = await startApp();
  const mixed = defineJob({
    name: "mixed",
    queue: "work",
    payload,
    retry: { ...retry, maxAttempts: 1 },
  });
  await app.startWorker((worker) =>
    worker.handleInTransaction(mixed, async (context, tx) => {
      await writeEffect(tx, context);
      const { n } = context.payload;
      if (n % 4 === 1) await tx.query("select nonsense");
      if (n % 4 === 2) await tx.query("select nonsense").catch(() => undefined);
      if (n % 4 === 3) await tx.query("set local search_path = nowhere");
    }),
  );

  for (let n = 0; n < 120; n += 1) await app.send("mixed", { n });

  const ended = (): Promise<unknown[]> =>
    app.database.rows(
      "select state, count(*)::int from waybill.inbox where state in ('succeeded', 'failed') group by state order by state",
    );
  await eventually(async () =>
    expect(await ended()).toEqual([
      { state: "failed", count: 60 },
      { state: "succeeded", count: 60 },
    ]),
  );
  expect(await app.effects()).toBe(60);
});

test("job.transaction commits while the job is ours, and rolls back once it is not", async () => {
  await using app = await startApp();
  const outcomes: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(job, async (context) => {
      await context.transaction((tx) => writeEffect(tx, context));
      await app.database.pool.query("update waybill.inbox set token = token + 1");
      await context
        .transaction((tx) => writeEffect(tx, context))
        .catch((error: unknown) => outcomes.push(error));
      await app.database.pool.query("update waybill.inbox set token = token - 1");
    }),
  );

  const id = await app.send("order.place", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  expect(outcomes).toEqual([expect.any(LeaseLostError)]);
  expect(await app.effects(id)).toBe(1);
});

test("G1: a handler that runs longer than its timeout fails the attempt, even if it returns", async () => {
  await using app = await startApp();
  const slow = defineJob({
    name: "slow",
    queue: "work",
    payload,
    timeoutMs: 50,
    retry: { ...retry, maxAttempts: 1 },
  });
  await app.startWorker((worker) =>
    worker.handleInTransaction(slow, async (context, tx) => {
      await writeEffect(tx, context);
      await untilAborted(context.signal);
    }),
  );

  const id = await app.send("slow", { n: 1 });

  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
  expect(await app.effects(id)).toBe(0);
  expect(await app.database.rows("select failure_class from waybill.failure")).toEqual([
    { failure_class: "timeout" },
  ]);
});

test("the hard timeout of a definition goes before the worker's patience with handlers that were told to stop", async () => {
  await using app = await startApp();
  const { promise: never } = Promise.withResolvers<void>();
  const hasty = defineJob({
    name: "hasty",
    queue: "work",
    payload,
    timeoutMs: 30,
    hardTimeoutMs: 60,
    retry: { ...retry, maxAttempts: 1 },
  });
  const running = await app.startWorker((worker) => worker.handle(hasty, () => never), {
    queues: { work: { concurrency: 1 } },
    abandonMs: 3_600_000,
    recycle: { maxLeftBehind: 2 },
  });

  const first = await app.send("hasty", { n: 1 });
  await eventually(async () => expect(await app.inbox(first)).toMatchObject({ state: "failed" }));
  const second = await app.send("hasty", { n: 2 });

  await eventually(async () => expect(await app.inbox(second)).toMatchObject({ state: "failed" }));
  expect(await app.database.rows("select distinct failure_class from waybill.failure")).toEqual([
    { failure_class: "timeout" },
  ]);
  // Two handlers go on for ever, which is more than the worker is to put up with.
  await eventually(() => running.worker.status().state === "stopped");
});

test("G1: a handler that never returns loses its slot, and what it does later has no effect", async () => {
  await using app = await startApp();
  const hanging = defineJob({
    name: "hanging",
    queue: "work",
    payload,
    timeoutMs: 30,
    retry: { ...retry, maxAttempts: 1 },
  });
  const { promise: later, resolve: goOn } = Promise.withResolvers<void>();
  const ended: string[] = [];
  await app.startWorker(
    (worker) => {
      worker.handleInTransaction(hanging, async (context, tx) => {
        await writeEffect(tx, context);
        await later;
        ended.push("hanging");
      });
      worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context));
    },
    { queues: { work: { concurrency: 1 } }, abandonMs: 50 },
  );

  const stuck = await app.send("hanging", { n: 1 });
  const next = await app.send("order.place", { n: 1 });

  await eventually(async () => expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }));
  goOn();
  await eventually(() => ended.length === 1);
  await eventually(async () => {
    const open = await app.database.rows(
      "select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
    );
    expect(open).toEqual([]);
  });
  expect(await app.inbox(stuck)).toMatchObject({ state: "failed" });
  expect(await app.effects(stuck)).toBe(0);
});
