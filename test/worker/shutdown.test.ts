import { defineJob, ShutdownError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "long", queue: "work", payload });

test("a worker that stops finishes what runs, gives back what waits, and spends no attempt", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  const started: string[] = [];
  const first = await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        started.push(context.id);
        await writeEffect(tx, context);
        await finish;
      }),
    { queues: { work: { concurrency: 3 } } },
  );
  const ids: string[] = [];
  for (let n = 0; n < 10; n += 1) ids.push(await app.send("long", { n }));
  await eventually(() => started.length === 3);

  const stopped = first.stop();
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(7));
  goOn();
  await stopped;

  expect(await app.effects()).toBe(3);
  expect(await app.database.rows("select from waybill.worker")).toEqual([]);
  await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );
  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1 and crashes = 0",
      ),
    ).toHaveLength(10),
  );
  expect(await app.effects()).toBe(10);
});

test.each([
  ["listens to its signal", true],
  ["ignores it", false],
])(
  "H3: a job that outlasts the grace and %s is handed back and runs elsewhere at once",
  async (_how, listens) => {
    await using app = await startApp();
    const reasons: unknown[] = [];
    let starts = 0;
    const first = await app.startWorker(
      (worker) =>
        worker.handle(job, async (context) => {
          starts += 1;
          context.signal.addEventListener("abort", () => reasons.push(context.signal.reason));
          await untilAborted(listens ? context.signal : new AbortController().signal);
          context.signal.throwIfAborted();
        }),
      { graceMs: 100, leaseMs: 600_000 },
    );
    const id = await app.send("long", { n: 1 });
    await eventually(() => starts === 1);

    await first.stop();

    expect(reasons).toEqual([expect.any(ShutdownError)]);
    expect(await app.inbox(id)).toMatchObject({ state: "retry_waiting", owner: null });
    await app.startWorker((worker) =>
      worker.handle(job, (context) => context.transaction((tx) => writeEffect(tx, context))),
    );
    await eventually(async () =>
      expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
    );
    expect(await app.effects(id)).toBe(1);
    expect(await app.database.rows("select from waybill.failure")).toEqual([]);
  },
);

test("H3: the heartbeat goes on while a stopping worker finishes its jobs", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  let starts = 0;
  const first = await app.startWorker(
    (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        starts += 1;
        await writeEffect(tx, context);
        await finish;
      }),
    { leaseMs: 1_000, graceMs: 20_000 },
  );
  const id = await app.send("long", { n: 1 });
  await eventually(() => starts === 1);
  const beats = async (): Promise<number> => {
    const [row] = await app.database.rows<{ at: Date }>(
      "select heartbeat_at as at from waybill.worker",
    );
    return row?.at.getTime() ?? 0;
  };

  const stopped = first.stop();
  const before = await beats();
  await eventually(async () => expect(await beats()).toBeGreaterThan(before + 1_500));
  goOn();
  await stopped;

  expect(await app.inbox(id)).toMatchObject({ state: "succeeded", crashes: 0 });
  expect(await app.effects(id)).toBe(1);
});

test("H3: rolling restarts under load lose nothing and count no crash", async () => {
  await using app = await startApp();
  const register = (worker: Parameters<Parameters<typeof app.startWorker>[0]>[0]): void =>
    worker.handleInTransaction(job, async (context, tx) => {
      await writeEffect(tx, context);
      await tx.query("select pg_sleep(0.005)");
    });
  let running = await app.startWorker(register);
  const sending = (async () => {
    for (let n = 0; n < 300; n += 1) await app.send("long", { n });
  })();

  for (let restart = 0; restart < 4; restart += 1) {
    const next = await app.startWorker(register);
    await running.stop();
    running = next;
  }
  await sending;

  await eventually(async () =>
    expect(
      await app.database.rows(
        "select from waybill.inbox where state = 'succeeded' and attempt = 1 and crashes = 0",
      ),
    ).toHaveLength(300),
  );
  expect(await app.effects()).toBe(300);
});
