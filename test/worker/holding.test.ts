import { defineJob, LeaseLostError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { type App, startApp, untilAborted, writeEffect } from "./support/start-app.ts";

const job = defineJob({
  name: "long",
  queue: "work",
  payload: z.object({ n: z.int() }),
  retry: { maxAttempts: 3, initialDelayMs: 0 },
});
const stuck = defineJob({ name: "stuck", queue: "work", payload: z.looseObject({}) });

const leases = (app: App): Promise<unknown[]> =>
  app.database.rows("select reason, fire_at = 'infinity' as held from waybill.timer");

test.each(["plain", "transactional"])(
  "a long job's delivery is acked, its lease protects it, and goes with its end (%s handler)",
  async (kind) => {
    await using app = await startApp();
    const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
    await app.startWorker(
      (worker) => {
        if (kind === "plain") {
          worker.handle(job, async (context) => {
            await finish;
            await context.transaction((tx) => writeEffect(tx, context));
          });
        } else {
          worker.handleInTransaction(job, async (context, tx) => {
            await finish;
            await writeEffect(tx, context);
          });
        }
      },
      { holdMs: 1_000 },
    );
    const id = await app.enqueue("long", { n: 1 });
    await app.courier.round();

    await eventually(async () =>
      expect(await leases(app)).toEqual([{ reason: "lease", held: true }]),
    );
    expect(await app.inbox(id)).toMatchObject({ state: "running" });
    goOn();

    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
    expect(await leases(app)).toEqual([]);
    expect(await app.effects(id)).toBe(1);
    expect(await app.inbox(id)).toMatchObject({ attempt: 1, crashes: 0 });
  },
);

test("a long job that fails gets its retry in the place of its lease", async () => {
  await using app = await startApp();
  const { promise: fail, resolve: goOn } = Promise.withResolvers<void>();
  const runs: number[] = [];
  await app.startWorker(
    (worker) =>
      worker.handle(job, async (context) => {
        runs.push(context.attempt);
        if (runs.length > 1) return context.transaction((tx) => writeEffect(tx, context));
        await fail;
        throw new Error("in the middle");
      }),
    { holdMs: 1_000 },
  );
  const id = await app.enqueue("long", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await leases(app)).toHaveLength(1));

  goOn();
  app.courier.start({ hurry: true });

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 2 }),
  );
  expect(runs).toEqual([1, 2]);
  expect(await leases(app)).toEqual([]);
  expect(await app.effects(id)).toBe(1);
});

test("a long job whose worker is killed without a delivery runs elsewhere, once to effect", async () => {
  await using app = await startApp();
  const dying = await app.startWorkerProcess({ STUCK: "1", HOLD_MS: "1000" });
  const id = await app.enqueue("stuck", {});
  await app.courier.round();
  await eventually(async () => expect(await leases(app)).toHaveLength(1));
  await app.startWorker((worker) =>
    worker.handleInTransaction(stuck, (context, tx) => writeEffect(tx, context)),
  );
  app.courier.start();

  dying.kill("SIGKILL");

  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 1 }),
  );
  expect(await app.effects(id)).toBe(1);
  expect(await leases(app)).toEqual([]);
});

test("a long job without a delivery is handed back at the end of the grace, and runs elsewhere at once", async () => {
  await using app = await startApp();
  const first = await app.startWorker(
    (worker) => worker.handle(job, () => new Promise(() => undefined)),
    { holdMs: 1_000, graceMs: 0, abandonMs: 0 },
  );
  const id = await app.enqueue("long", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await leases(app)).toHaveLength(1));

  await first.stop();

  expect(await app.inbox(id)).toMatchObject({ state: "retry_waiting", owner: null });
  expect(await leases(app)).toEqual([{ reason: "held", held: false }]);
  // Nothing of it is at the broker: its delivery was acked.
  expect(await app.courier.depth("waybill.work")).toBe(0);
  await app.startWorker((worker) =>
    worker.handle(job, (context) => context.transaction((tx) => writeEffect(tx, context))),
  );
  app.courier.start();
  await eventually(async () =>
    expect(await app.inbox(id)).toMatchObject({ state: "succeeded", attempt: 1, crashes: 0 }),
  );
  expect(await app.effects(id)).toBe(1);
});

test("a copy of a long job that arrives from elsewhere waits, and is dropped when the job has ended", async () => {
  await using app = await startApp();
  const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
  let runs = 0;
  const handle = async (): Promise<void> => {
    runs += 1;
    await finish;
  };
  await app.startWorker((worker) => worker.handle(job, handle), { holdMs: 1_000 });
  const id = await app.enqueue("long", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await leases(app)).toHaveLength(1));
  await app.startWorker((worker) => worker.handle(job, handle));

  await app.send("long", { n: 1 }, { id });
  await app.send("long", { n: 1 }, { id, dispatch: 2 });
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
  goOn();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  app.courier.start({ hurry: true });

  await eventually(async () => expect(await leases(app)).toEqual([]));
  expect(runs).toBe(1);
});

test("a long job whose delivery was lost with its connection holds no copy of it beside its lease", async () => {
  await using app = await startApp();
  await using proxy = await startProxy(app.vhost.url);
  const quick = defineJob({ name: "quick", queue: "work", payload: z.looseObject({}) });
  const running = await app.startWorker(
    (worker) => {
      worker.handle(job, () => new Promise(() => undefined));
      worker.handle(quick, () => undefined);
    },
    { holdMs: 2_000, graceMs: 0, abandonMs: 0, brokerUrl: proxy.url(app.vhost.url) },
  );
  const id = await app.enqueue("long", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  proxy.cut();
  // What comes after the copy has come: so has the copy.
  const next = await app.send("quick", {});
  await eventually(async () => expect(await app.inbox(next)).toMatchObject({ state: "succeeded" }));
  await eventually(async () => {
    expect(await app.courier.depth("waybill.work")).toBe(0);
    expect(await leases(app)).toContainEqual({ reason: "lease", held: true });
  });
  await running.stop();

  // A copy that was held until now would be back in its queue.
  expect(await app.courier.depth("waybill.work")).toBe(0);
  expect(await app.inbox(id)).toMatchObject({ state: "retry_waiting", attempt: 0, crashes: 0 });
});

test("a job that another attempt has taken is told so where it would go on without its delivery", async () => {
  await using app = await startApp();
  const { promise: told, resolve: tell } = Promise.withResolvers<unknown>();
  await app.startWorker(
    (worker) =>
      worker.handle(job, async ({ signal }) => {
        await untilAborted(signal);
        tell(signal.reason);
      }),
    { holdMs: 3_000 },
  );
  const id = await app.enqueue("long", { n: 1 });
  await app.courier.round();
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "running" }));

  await app.database.rows(
    "update waybill.inbox set token = token + 1, owner = gen_random_uuid() where id = $1",
    [id],
  );

  expect(await told).toBeInstanceOf(LeaseLostError);
  await eventually(async () =>
    expect(await leases(app)).not.toContainEqual({ reason: "lease", held: true }),
  );
});
