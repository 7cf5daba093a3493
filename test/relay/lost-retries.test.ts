/** A retry that is nowhere: what nothing should ever do, and what would block an ordering key for ever. */

import { defineJob, defineQueue, RetryAfterError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { startLine } from "../support/line.ts";

const ordered = defineJob({
  name: "ordered",
  queue: "work",
  payload: z.object({ n: z.number() }),
});

test("the head of an ordering key whose retry is nowhere is dispatched again, and its key goes on", async () => {
  await using line = await startLine();
  const { database } = line;
  const define = defineQueue({ name: "work", order: {} });
  const runs: string[] = [];
  line.startRelay({}, { settleMs: 500 });
  line.startWorker(
    ["work"],
    (worker) =>
      worker.handle(ordered, ({ payload, attempt }) => {
        runs.push(`${payload.n}.${attempt}`);
        if (payload.n === 0 && attempt === 1) throw new RetryAfterError("later", 600_000);
      }),
    { queues: { work: { concurrency: 5, define } } },
  );
  await line.transaction((tx) =>
    line.outbox.enqueueMany(
      tx,
      ordered,
      [0, 1, 2].map((n) => ({ payload: { n }, options: { orderingKey: "key" } })),
    ),
  );
  await eventually(async () =>
    expect(await database.rows("select from waybill.timer")).toHaveLength(1),
  );
  await eventually(async () =>
    expect(await database.rows("select from waybill.backlog")).toHaveLength(2),
  );

  await database.rows("delete from waybill.timer");

  await eventually(() => expect(runs).toEqual(["0.1", "0.2", "1.1", "2.1"]));
  await eventually(async () => expect(await database.rows("select from waybill.slot")).toEqual([]));
});
