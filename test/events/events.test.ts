/** Events: published once, received by each subscription on its own terms. */

import { defineEvent, NonRetryableError } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { type Line, startLine } from "../support/line.ts";

const created = defineEvent({ name: "order.created", payload: z.object({ order: z.string() }) });
const cancelled = defineEvent({
  name: "order.cancelled",
  payload: z.object({ order: z.string() }),
});

interface Ended {
  readonly queue: string;
  readonly state: string;
  readonly attempt: number;
}

const inboxOf = (line: Line, id: string): Promise<Ended[]> =>
  line.database.rows(
    "select queue, state, attempt from waybill.inbox where id = $1 order by queue",
    [id],
  );

/** Waits until the broker has a queue, which a worker declares at its start. */
async function queueExists(line: Line, queue: string): Promise<void> {
  const { management, name, prefix } = line.vhost;
  await eventually(async () => {
    const queues = await management.request("GET", `/api/queues/${name}`);
    return JSON.stringify(queues).includes(`"${prefix}.${queue}"`);
  });
}

test("two services subscribe to one event: one fails and retries, the other sees it once", async () => {
  await using line = await startLine();
  await line.database.rows("create table effect (subscription text, event_id uuid)");
  let failures = 0;
  line.startWorker([], (worker) =>
    worker.on(created, { subscription: "billing" }, async (event, tx) => {
      await tx.query("insert into effect values ('billing', $1)", [event.id]);
      if (failures < 2) {
        failures += 1;
        throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
      }
    }),
  );
  line.startWorker([], (worker) =>
    worker.on(created, { subscription: "mails" }, async (event, tx) => {
      await tx.query("insert into effect values ('mails', $1)", [event.id]);
    }),
  );
  await queueExists(line, "billing");
  await queueExists(line, "mails");
  line.startRelay();

  const { jobId } = await line.transaction((tx) =>
    line.outbox.publish(tx, created, { order: "42" }),
  );

  await eventually(
    async () => {
      const rows = await inboxOf(line, jobId);
      return rows.length === 2 && rows.every((row) => row.state === "succeeded");
    },
    { deadlineMs: 25_000 },
  );
  expect(await inboxOf(line, jobId)).toEqual([
    { queue: "billing", state: "succeeded", attempt: 3 },
    { queue: "mails", state: "succeeded", attempt: 1 },
  ]);
  expect(
    await line.database.rows("select subscription, event_id from effect order by subscription"),
  ).toEqual([
    { subscription: "billing", event_id: jobId },
    { subscription: "mails", event_id: jobId },
  ]);
});

test("several events share a subscription, each with its own handler", async () => {
  await using line = await startLine();
  const seen: string[] = [];
  line.startWorker([], (worker) => {
    worker.on(created, { subscription: "audit" }, async (event) => {
      seen.push(`created ${event.payload.order}`);
    });
    worker.on(cancelled, { subscription: "audit" }, async (event) => {
      seen.push(`cancelled ${event.payload.order}`);
    });
  });
  await queueExists(line, "audit");
  line.startRelay();

  await line.transaction(async (tx) => {
    await line.outbox.publish(tx, created, { order: "1" });
    await line.outbox.publish(tx, cancelled, { order: "2" });
  });

  await eventually(() => seen.length === 2);
  expect(seen.toSorted()).toEqual(["cancelled 2", "created 1"]);
});

test("an event published in a rolled back transaction reaches nobody", async () => {
  await using line = await startLine();
  const seen: string[] = [];
  line.startWorker([], (worker) =>
    worker.on(created, { subscription: "billing" }, async (event) => {
      seen.push(event.payload.order);
    }),
  );
  await queueExists(line, "billing");
  line.startRelay();

  await expect(
    line.transaction(async (tx) => {
      await line.outbox.publish(tx, created, { order: "ghost" });
      throw new Error("rolled back");
    }),
  ).rejects.toThrow("rolled back");
  await line.transaction((tx) => line.outbox.publish(tx, created, { order: "real" }));

  await eventually(() => seen.includes("real"));
  expect(seen).toEqual(["real"]);
});

test("a dead letter of one subscription is redriven to that subscription only", async () => {
  await using line = await startLine();
  const seen: string[] = [];
  let broken = true;
  line.startWorker([], (worker) => {
    worker.on(created, { subscription: "billing" }, async () => {
      seen.push("billing");
      if (broken) throw new NonRetryableError("the account is closed");
    });
    worker.on(created, { subscription: "mails" }, async () => {
      seen.push("mails");
    });
  });
  await queueExists(line, "mails");
  line.startRelay();
  const { jobId } = await line.transaction((tx) =>
    line.outbox.publish(tx, created, { order: "1" }),
  );
  await eventually(async () =>
    (await inboxOf(line, jobId)).some((row) => row.queue === "billing" && row.state === "failed"),
  );

  broken = false;
  await line.jobs.retry(jobId, { queue: "billing" });

  await eventually(async () =>
    (await inboxOf(line, jobId)).every((row) => row.state === "succeeded"),
  );
  expect(seen.filter((name) => name === "mails")).toHaveLength(1);
  expect(seen.filter((name) => name === "billing")).toHaveLength(2);
});
