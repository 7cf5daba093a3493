import { defineJob, newJobId } from "@waybill/core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type App, startApp, writeEffect } from "./support/start-app.ts";

const payload = z.object({ n: z.int() });
const job = defineJob({ name: "order.place", queue: "work", payload });

async function ends(app: App, id: string, state: string): Promise<void> {
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state }));
}

describe("F3: a message that cannot be read", () => {
  test.each([
    ["broken JSON", Buffer.from('{"a":"x'), false],
    ["an empty body", Buffer.alloc(0), false],
    ["bytes that are no text", Buffer.from([0xff, 0xfe, 0x00, 0x41]), true],
    ["NUL characters", Buffer.from('{"a":"\u0000"}'), true],
    ["a thousand levels", Buffer.from("[".repeat(1_000) + "]".repeat(1_000)), false],
  ])(
    "(%s) is dead-lettered once, with its bytes and a reason",
    async (_what, content, isBase64) => {
      await using app = await startApp();
      await app.startWorker((worker) => worker.handle(job, () => undefined));
      app.courier.start({ hurry: true });
      const messageId = newJobId();

      for (let copy = 0; copy < 2; copy += 1) {
        await app.courier.publish({
          routingKey: "waybill.work",
          content,
          properties: { messageId, type: "order.place" },
        });
      }
      const next = await app.send("order.place", { n: 1 });

      await ends(app, messageId, "failed");
      await ends(app, next, "succeeded");
      await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
      expect(
        await app.database.rows("select failure_class, attempt, terminal from waybill.failure"),
      ).toEqual([{ failure_class: "undecodable", attempt: 0, terminal: true }]);
      const [letter] = await app.database.rows(
        "select payload, payload_base64, message from waybill.dead_letter",
      );
      expect(letter).toMatchObject({
        payload: content.toString(isBase64 ? "base64" : "utf8"),
        payload_base64: isBase64,
        message: expect.stringMatching(/.+/),
      });
      const dead = await app.courier.next("waybill.work.dlq");
      expect(dead.content.equals(content)).toBe(true);
      expect(dead.headers).toMatchObject({ "waybill-error-class": "undecodable" });
      expect(await app.courier.take("waybill.work.dlq")).toBeUndefined();
    },
  );

  test("is one of a thousand, and the good ones among them run", async () => {
    await using app = await startApp();
    for (let n = 0; n < 300; n += 1) {
      await app.courier.publish({
        routingKey: "waybill.work",
        content: `{"broken ${n}`,
        properties: { type: "order.place" },
      });
      if (n % 3 === 0) await app.send("order.place", { n });
    }

    await app.startWorker((worker) =>
      worker.handleInTransaction(job, (context, tx) => writeEffect(tx, context)),
    );

    const counts = (): Promise<unknown[]> =>
      app.database.rows(
        "select state, count(*)::int from waybill.inbox group by state order by state",
      );
    await eventually(async () =>
      expect(await counts()).toEqual([
        { state: "failed", count: 300 },
        { state: "succeeded", count: 100 },
      ]),
    );
    expect(await app.database.rows("select from waybill.dead_letter")).toHaveLength(300);
    expect(
      await app.database.rows("select from waybill.outbox where kind = 'dead_letter'"),
    ).toHaveLength(300);
  });

  test("but bears the id of a job that runs does not touch that job", async () => {
    await using app = await startApp();
    const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
    let runs = 0;
    await app.startWorker((worker) =>
      worker.handleInTransaction(job, async (context, tx) => {
        runs += 1;
        await writeEffect(tx, context);
        await finish;
      }),
    );
    const id = await app.send("order.place", { n: 1 });
    await eventually(() => runs === 1);

    await app.courier.publish({
      routingKey: "waybill.work",
      content: "{broken",
      properties: { messageId: id, type: "order.place" },
    });
    await eventually(async () =>
      expect(await app.database.rows("select reason from waybill.timer")).toEqual([
        { reason: "held" },
      ]),
    );
    goOn();

    await ends(app, id, "succeeded");
    expect(await app.effects(id)).toBe(1);
  });
});

describe("a message typed by hand", () => {
  test("with a type and a JSON body runs", async () => {
    await using app = await startApp();
    const seen: unknown[] = [];
    const other = defineJob({ name: "other", queue: "work", payload });
    await app.startWorker((worker) => {
      worker.handle(job, (context) => void seen.push(context.payload));
      worker.handle(other, () => undefined);
    });

    await app.courier.publish({
      exchange: "waybill.jobs",
      routingKey: "work",
      content: '{"n":5}',
      properties: { type: "order.place" },
    });

    await eventually(() => seen.length === 1);
    expect(seen).toEqual([{ n: 5 }]);
  });

  test("without a type runs as the queue's only job", async () => {
    await using app = await startApp();
    const seen: unknown[] = [];
    await app.startWorker((worker) =>
      worker.handle(job, (context) => void seen.push(context.payload)),
    );

    await app.courier.publish({ routingKey: "waybill.work", content: '{"n":6}' });

    await eventually(() => seen.length === 1);
    expect(seen).toEqual([{ n: 6 }]);
  });

  test("without a type in a queue of several jobs is dead-lettered with the reason", async () => {
    await using app = await startApp();
    const other = defineJob({ name: "other", queue: "work", payload });
    await app.startWorker((worker) => {
      worker.handle(job, () => undefined);
      worker.handle(other, () => undefined);
    });
    app.courier.start({ hurry: true });

    await app.courier.publish({ routingKey: "waybill.work", content: '{"n":7}' });

    const dead = await app.courier.next("waybill.work.dlq");
    expect(dead.content.toString()).toBe('{"n":7}');
    expect(dead.headers).toMatchObject({
      "waybill-error-class": "no_handler",
      "waybill-error": expect.stringContaining("no type"),
    });
  });
});
