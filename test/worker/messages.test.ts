import { defineJob, newJobId } from "@waybill/core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 } as const;
const job = defineJob({ name: "order.place", queue: "work", payload, retry });

async function ends(app: App, id: string, state: string): Promise<void> {
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state }));
}

/** Moves a message from the dead-letter queue to its queue, as a shovel does: all of it, untouched. */
async function moveBack(app: App): Promise<void> {
  const dead = await app.courier.next("waybill.work.dlq");
  await app.courier.publish({
    routingKey: "waybill.work",
    content: dead.content,
    properties: { ...dead.properties, headers: dead.headers },
  });
}

describe("F7: a message moved back from the dead-letter queue", () => {
  test("runs again, once, and its dead letter is closed", async () => {
    await using app = await startApp();
    let isBroken = true;
    const register: Parameters<App["startWorker"]>[0] = (worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        if (isBroken) throw new Error("broken");
        await writeEffect(tx, context);
      });
    const first = await app.startWorker(register);
    app.courier.start({ hurry: true });
    const id = await app.send("order.place", { n: 1 });
    await ends(app, id, "failed");

    isBroken = false;
    await moveBack(app);
    await ends(app, id, "succeeded");
    await first.stop();
    const second = await app.startWorker(register);
    await second.stop();
    await app.startWorker(register);

    expect(await app.effects(id)).toBe(1);
    expect(await app.inbox(id)).toMatchObject({ attempt: 1, deaths: 1 });
    expect(await app.database.rows("select from waybill.dead_letter")).toEqual([]);
    expect(await app.database.rows("select action, actor from waybill.audit_log")).toEqual([
      { action: "redrive", actor: "broker" },
    ]);
  });

  test("and doubled on the way runs once", async () => {
    await using app = await startApp();
    let runs = 0;
    await app.startWorker((worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        runs += 1;
        if (runs <= 2) throw new Error("broken");
        await writeEffect(tx, context);
      }),
    );
    app.courier.start({ hurry: true });
    const id = await app.send("order.place", { n: 1 });
    await ends(app, id, "failed");

    const dead = await app.courier.next("waybill.work.dlq");
    const properties = { ...dead.properties, headers: dead.headers };
    for (let copy = 0; copy < 3; copy += 1) {
      await app.courier.publish({ routingKey: "waybill.work", content: dead.content, properties });
    }

    await ends(app, id, "succeeded");
    await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
    expect(runs).toBe(3);
    expect(await app.effects(id)).toBe(1);
  });

  test("that fails again dies a second time, and its first dead letter is no pass any more", async () => {
    await using app = await startApp();
    await app.startWorker((worker) =>
      worker.handle(job, () => {
        throw new Error("broken");
      }),
    );
    app.courier.start({ hurry: true });
    const id = await app.send("order.place", { n: 1 });
    await ends(app, id, "failed");
    const first = await app.courier.next("waybill.work.dlq");
    const copy = {
      routingKey: "waybill.work",
      content: first.content,
      properties: { ...first.properties, headers: first.headers },
    };

    await app.courier.publish(copy);
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ deaths: 2 }));
    const second = await app.courier.next("waybill.work.dlq");
    await app.courier.publish(copy);
    await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));

    expect(second.headers).toMatchObject({ "waybill-death": "2" });
    expect(await app.inbox(id)).toMatchObject({ state: "failed", deaths: 2 });
  });
});

test("H2: a payload that does not fit is dead-lettered with its bytes, and runs once the schema fits", async () => {
  await using app = await startApp();
  const strict = defineJob({
    name: "order.place",
    queue: "work",
    payload: z.object({ n: z.int(), required: z.string() }),
  });
  const old = await app.startWorker((worker) => worker.handle(strict, () => undefined));
  app.courier.start({ hurry: true });
  const body = '{"n": 1,  "note": "as sent"}';
  const id = newJobId();
  await app.courier.dispatch({ id, type: "order.place", queue: "work", payload: body });
  await ends(app, id, "failed");
  expect(
    await app.database.rows("select failure_class, attempts, payload from waybill.dead_letter"),
  ).toEqual([{ failure_class: "validation", attempts: 1, payload: body }]);

  await old.stop();
  await app.startWorker((worker) =>
    worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
  );
  await moveBack(app);

  await ends(app, id, "succeeded");
  expect(await app.effects(id)).toBe(1);
});

test("a job whose payload no longer fits is taken over from a dead worker all the same", async () => {
  await using app = await startApp();
  const victim = await app.startWorkerProcess({ STUCK: "1" });
  const id = await app.send("stuck", { n: "one" });
  await victim.waitForLine(`run stuck ${id}`);
  const stuck = defineJob({ name: "stuck", queue: "work", payload });

  victim.kill("SIGKILL");
  await app.startWorker((worker) => worker.handle(stuck, () => undefined));

  await ends(app, id, "failed");
  expect(await app.database.rows("select failure_class from waybill.dead_letter")).toEqual([
    { failure_class: "validation" },
  ]);
});

describe("H1: a type or version that no worker here knows", () => {
  test.each([
    ["a type", { type: "brand.new" }],
    ["a version", { type: "order.place", version: 2 }],
    ["a name that every object has", { type: "constructor" }],
    ["another such name", { type: "__proto__" }],
  ])(
    "(%s) is parked with its bytes, spends no attempt, and runs when a worker knows it",
    async (_what, what) => {
      await using app = await startApp();
      const old = await app.startWorker((worker) => worker.handle(job, () => undefined));
      const body = '{"n":1, "x":  null}';
      const id = newJobId();
      await app.courier.dispatch({ id, queue: "work", payload: body, ...what });
      await app.courier.dispatch({
        id: newJobId(),
        type: "order.place",
        queue: "work",
        payload: '{"n":1}',
      });
      const parked = (): Promise<Record<string, unknown>[]> =>
        app.database.rows(
          "select reason, payload, parked_at, headers from waybill.timer where id = $1",
          [id],
        );
      await eventually(async () =>
        expect(await parked()).toMatchObject([{ reason: "no_handler", payload: body }]),
      );
      const [first] = await parked();

      await app.courier.round(true);
      await eventually(async () => expect(await parked()).toHaveLength(1));
      const [again] = await parked();
      expect(again?.["parked_at"]).toEqual(first?.["parked_at"]);
      expect(await app.inbox(id)).toBeUndefined();

      if (what.type === "constructor" || what.type === "__proto__") return;
      await old.stop();
      const version = "version" in what ? what.version : 1;
      const known = defineJob({
        name: what.type,
        queue: "work",
        payload: z.looseObject({}),
        version,
      });
      await app.startWorker((worker) =>
        worker.handleInTransaction(known, (context, tx) => writeEffect(tx, context)),
      );
      await app.courier.round(true);

      await ends(app, id, "succeeded");
      expect(await app.inbox(id)).toMatchObject({ attempt: 1, crashes: 0 });
      expect(await app.effects(id)).toBe(1);
    },
  );

  test("is dead-lettered when its window is over", async () => {
    await using app = await startApp();
    await app.startWorker((worker) => worker.handle(job, () => undefined), {
      noHandlerWindowMs: 0,
    });
    const id = await app.send("brand.new", { n: 1 });
    await eventually(async () =>
      expect(await app.database.rows("select from waybill.timer")).toHaveLength(1),
    );

    await app.courier.round(true);

    await ends(app, id, "failed");
    expect(
      await app.database.rows("select failure_class, attempts, message from waybill.dead_letter"),
    ).toEqual([
      {
        failure_class: "no_handler",
        attempts: 0,
        message: expect.stringContaining("brand.new") as string,
      },
    ]);
  });
});

test("a job that has expired before it starts ends as cancelled", async () => {
  await using app = await startApp();
  let runs = 0;
  await app.startWorker((worker) => worker.handle(job, () => void (runs += 1)));

  const id = newJobId();
  await app.courier.dispatch({
    id,
    type: "order.place",
    queue: "work",
    payload: '{"n":1}',
    expiresAt: new Date(Date.now() - 1_000),
  });

  await ends(app, id, "cancelled");
  expect(runs).toBe(0);
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
});

test("messages of other producers run once for each of their ids", async () => {
  await using app = await startApp();
  const seen: number[] = [];
  await app.startWorker((worker) =>
    worker.handle(job, (context) => void seen.push(context.payload.n)),
  );

  for (const messageId of ["order-1", "order-1", "order-2"]) {
    await app.courier.publish({
      routingKey: "waybill.work",
      content: JSON.stringify({ n: Number(messageId.at(-1)) }),
      properties: { messageId, type: "order.place", headers: { "x-death": "forged" } },
    });
  }

  await eventually(async () => {
    expect(
      await app.database.rows("select from waybill.inbox where state = 'succeeded'"),
    ).toHaveLength(2);
    expect(await app.courier.depth("waybill.work")).toBe(0);
  });
  expect(seen.toSorted((a, b) => a - b)).toEqual([1, 2]);
});
