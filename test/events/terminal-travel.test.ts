/** What a job says of its end goes with its message wherever the message goes, unseen by the application. */

import { validateValue } from "@waybill/core";
import { describe, expect, expectTypeOf, test } from "vitest";
import type { JobEnded } from "@waybill/core";
import { eventually } from "../support/index.ts";
import { type App, startApp } from "../worker/support/start-app.ts";
import { deskOf, ended, endsOf, other, quiet, report, settled } from "./support/report.ts";

const state = ({ state: name }: JobEnded): string => name;

/** From here on the message alone can say which event to publish. */
const forget = (app: App): Promise<unknown[]> =>
  app.database.rows("update waybill.inbox set on_terminal = null");

const waits = (app: App, reason: string): Promise<void> =>
  eventually(async () =>
    expect(await app.database.rows("select reason from waybill.timer")).toEqual([{ reason }]),
  ).then(() => undefined);

describe("the event of a job's end is published although the message", () => {
  test("waited for its next attempt", async () => {
    await using app = await startApp();
    await app.startWorker((worker) =>
      worker.handle(report, ({ attempt }) => {
        if (attempt === 1) throw new Error("no luck");
        return { rows: 3 };
      }),
    );
    const id = await deskOf(app).enqueue();
    await app.courier.round();
    await waits(app, "retry");
    await forget(app);

    await app.courier.round(true);

    expect((await settled(app, id, "succeeded")).map(state)).toEqual(["succeeded"]);
  });

  test("was delayed, and was parked for a worker that has a handler", async () => {
    await using app = await startApp();
    const id = await deskOf(app).enqueue({ delayMs: 3_600_000 });
    await using first = await app.startWorker((worker) => worker.handle(quiet, () => undefined));
    await app.courier.round(true);
    await waits(app, "no_handler");
    await first.stop();
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));

    await app.courier.round(true);

    expect((await settled(app, id, "succeeded")).map(state)).toEqual(["succeeded"]);
  });

  test("was a copy held back while its job ran on a worker that died", async () => {
    await using app = await startApp();
    const id = await deskOf(app).enqueue();
    await app.database.rows(
      `insert into waybill.worker (id, name, host, pid, version, queues, lease_until)
       values ('00000000-0000-7000-8000-000000000001', 'a', 'a', 1, '0', '{work}', now() + interval '1 hour')`,
    );
    await app.database.rows(
      `insert into waybill.inbox (id, queue, type, state, attempt, dispatch, owner, enqueued_at)
       values ($1, 'work', 'report', 'running', 1, 1, '00000000-0000-7000-8000-000000000001', now())`,
      [id],
    );
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
    await app.courier.round();
    await waits(app, "held");
    await app.database.rows("delete from waybill.worker where name = 'a'");

    await app.courier.round(true);

    expect((await settled(app, id, "succeeded")).map(state)).toEqual(["succeeded"]);
  });

  test("was acked long before the end of its job", async () => {
    await using app = await startApp();
    const { promise: finish, resolve: goOn } = Promise.withResolvers<void>();
    await app.startWorker(
      (worker) =>
        worker.handle(report, async () => {
          await finish;
          return { rows: 3 };
        }),
      { holdMs: 1_000 },
    );
    const id = await deskOf(app).enqueue();
    await app.courier.round();

    await waits(app, "lease");
    expect(await app.database.rows("select headers from waybill.timer")).toEqual([
      { headers: { "waybill-on-terminal": ended.name } },
    ]);
    goOn();

    expect((await settled(app, id, "succeeded")).map(state)).toEqual(["succeeded"]);
  });

  test.each(["by the application", "by hand, at the broker"])(
    "was dead-lettered and redriven %s: one event for each of its two ends",
    async (how) => {
      await using app = await startApp();
      const { enqueue, jobs } = deskOf(app);
      let isBroken = true;
      await app.startWorker((worker) =>
        worker.handle(report, () => {
          if (isBroken) throw new Error("no luck");
          return { rows: 3 };
        }),
      );
      app.courier.start({ hurry: true });
      const id = await enqueue();
      await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "failed" }));
      await forget(app);
      isBroken = false;

      if (how === "by the application") await jobs.retry(id);
      else {
        const dead = await app.courier.next("waybill.work.dlq");
        const properties = { ...dead.properties, headers: dead.headers };
        await app.courier.publish({
          routingKey: "waybill.work",
          content: dead.content,
          properties,
        });
      }

      const ends = await settled(app, id, "succeeded");
      expect(ends.map(({ state: name, result }) => [name, result])).toEqual([
        ["failed", null],
        ["succeeded", { rows: 3 }],
      ]);
    },
  );
});

test("an enqueue names another event of the end, or none; jobs that ask for none have none", async () => {
  await using app = await startApp();
  const { enqueue, outbox } = deskOf(app);
  await app.startWorker((worker) => {
    worker.handle(report, () => ({ rows: 3 }));
    worker.handle(quiet, () => undefined);
  });

  const renamed = await enqueue({ onTerminal: other });
  const silent = await enqueue({ onTerminal: null });
  const never = await app.dataLayer.transaction((tx) => outbox.enqueue(tx, quiet, { n: 1 }));
  const asked = await app.dataLayer.transaction((tx) =>
    outbox.enqueue(tx, quiet, { n: 1 }, { onTerminal: other }),
  );
  app.courier.start();

  for (const id of [renamed, silent, never.jobId, asked.jobId]) {
    await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state: "succeeded" }));
  }
  expect(await endsOf(app, renamed, other.name)).toHaveLength(1);
  expect(await endsOf(app, asked.jobId, other.name)).toHaveLength(1);
  expect(await app.database.rows("select from waybill.outbox where kind = 'event'")).toHaveLength(
    2,
  );
});

test("the event of an end is no header of the application: neither handler nor reader sees it", async () => {
  await using app = await startApp();
  const { enqueue, jobs } = deskOf(app);
  const seen: unknown[] = [];
  await app.startWorker((worker) =>
    worker.handle(report, (job) => {
      seen.push({ ...job.headers });
      return { rows: 3 };
    }),
  );
  app.courier.start();

  const id = await enqueue({ headers: { tenant: "acme" } });
  const bare = await enqueue();
  await settled(app, id, "succeeded");
  await settled(app, bare, "succeeded");

  expect(seen.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)))).toEqual([
    { tenant: "acme" },
    {},
  ]);
  expect((await jobs.get(id))?.headers).toEqual({ tenant: "acme" });
  expect((await jobs.get(bare))?.headers).toEqual({});
});

test("events of ends that have no meaning are refused before anything is written", async () => {
  await using app = await startApp();
  const { enqueue, outbox } = deskOf(app);
  const route = { exchange: "amq.topic", routingKey: "reports" };

  await expect(enqueue({ onTerminal: ended, route })).rejects.toThrow(/onTerminal.*with route/);
  await expect(enqueue({ onTerminal: { name: "a b" } as never })).rejects.toThrow(
    /onTerminal.*defineTerminalEvent/,
  );
  await expect(
    app.dataLayer.transaction((tx) =>
      outbox.publish(tx, ended, {} as never, { onTerminal: other }),
    ),
  ).rejects.toThrow(/onTerminal.*of an event/);
  await enqueue({ route });

  expect(await app.database.rows("select headers from waybill.outbox")).toEqual([
    { headers: null },
  ]);
});

test.each([
  ["empty", ""],
  ["a prototype's", "constructor"],
  ["too long", "x".repeat(200)],
  ["with spaces", "report ended"],
])(
  "a name of such an event that nobody could subscribe to, %s, keeps no job from its end",
  async (_what, name) => {
    await using app = await startApp();
    const { jobs } = deskOf(app);
    await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
    const headers = { "waybill-on-terminal": name };
    const done = await app.enqueue("report", { n: 1 }, { headers });
    const cancelled = await app.enqueue("report", { n: 2 }, { headers, delay_ms: 3_600_000 });

    await jobs.cancel(cancelled);
    await app.courier.round();

    await eventually(async () =>
      expect(await app.inbox(done)).toMatchObject({ state: "succeeded" }),
    );
    expect(await app.inbox(cancelled)).toMatchObject({ state: "cancelled" });
    const events = await app.database.rows("select type from waybill.outbox where kind = 'event'");
    expect(events.filter((event) => event["type"] !== "constructor")).toEqual([]);
  },
);

test("a foreign message cannot ask for an event of its end", async () => {
  await using app = await startApp();
  await app.startWorker((worker) => worker.handle(report, () => ({ rows: 3 })));
  const messageId = "0198a3f4-5b6c-7d8e-9f00-112233445566";

  await app.courier.publish({
    routingKey: "waybill.work",
    content: '{"n":1}',
    properties: { messageId, type: "report", headers: { "waybill-on-terminal": ended.name } },
  });

  expect(await settled(app, messageId, "succeeded")).toEqual([]);
});

test("a subscription receives the event of an end once, typed, and the job's id leads back", async () => {
  await using app = await startApp();
  const received: [JobEnded, string | undefined][] = [];
  await app.startWorker((worker) => {
    worker.handle(report, () => ({ rows: 3 }));
    worker.on(ended, { subscription: "mails" }, ({ payload, correlationId }) => {
      expectTypeOf(payload).toEqualTypeOf<JobEnded>();
      received.push([payload, correlationId]);
    });
  });
  app.courier.start();

  const id = await deskOf(app).enqueue();
  await eventually(() => received.length > 0);
  const ends = await settled(app, id, "succeeded");

  await eventually(async () =>
    expect(
      await app.database.rows("select state, attempt from waybill.inbox where queue = 'mails'"),
    ).toEqual([{ state: "succeeded", attempt: 1 }]),
  );
  expect(received).toEqual([[ends[0], id]]);
  expect((await validateValue(ended.payload, received[0]?.[0])).issues).toBeUndefined();
});
