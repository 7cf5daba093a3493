/**
 * What services that write outboxes by hand get wrong on the publishing side (docs/why.md): each
 * test is named after the mistake.
 */

import { defineJob, NotInTransactionError } from "@waybill/core";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually, startProxy } from "../support/index.ts";
import { startLine } from "../support/line.ts";

const work = defineJob({
  name: "fault.work",
  queue: "faults",
  payload: z.object({ n: z.int() }),
  retry: { initialDelayMs: 10, maxDelayMs: 20 },
});

test("marked before confirmed: a row whose confirm is lost is not relayed, and is published again", async () => {
  await using line = await startLine();
  await using proxy = await startProxy(line.vhost.url);
  const ran: number[] = [];
  // The queue exists before the confirms are swallowed, so that the publish itself goes through.
  line.startWorker(["faults"], (worker) =>
    worker.handle(work, async (job) => {
      ran.push(job.payload.n);
    }),
  );
  line.startRelay({
    broker: { url: proxy.url(line.vhost.url), prefix: line.vhost.prefix },
    confirmTimeoutMs: 1_000,
  });
  const first = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));
  await eventually(async () => (await line.jobs.get(first.jobId)).relayed);

  proxy.blackHole("in");
  const second = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 2 }));
  await eventually(() => ran.includes(2));
  const whileUnconfirmed = await line.jobs.get(second.jobId);
  proxy.pass();
  proxy.cut();

  expect(whileUnconfirmed.relayed).toBe(false);
  await eventually(async () => (await line.jobs.get(second.jobId)).relayed, { deadlineMs: 25_000 });
  expect(ran).toEqual([1, 2]);
});

test("C4: unroutable counted as published: a returned message is parked with its reason and runs once a queue takes it", async () => {
  await using line = await startLine();
  line.startRelay({
    broker: { url: line.vhost.url, prefix: line.vhost.prefix, topology: "off" },
  });
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));

  const parked = await eventually(async () => {
    const job = await line.jobs.get(jobId);
    return job.waitingFor !== null && job;
  });
  line.startWorker(["faults"], (worker) => worker.handle(work, async () => undefined));

  expect(["unroutable", "refused"]).toContain(parked.waitingFor);
  await eventually(async () => (await line.jobs.get(jobId)).state === "succeeded", {
    deadlineMs: 25_000,
  });
});

test("an outage exhausts a retry counter: a broker that refuses for a while parks and loses nothing", async () => {
  await using line = await startLine();
  await using proxy = await startProxy(line.vhost.url);
  proxy.refuse();
  const relay = line.startRelay({
    broker: { url: proxy.url(line.vhost.url), prefix: line.vhost.prefix },
  });
  line.startWorker(["faults"], (worker) => worker.handle(work, async () => undefined));
  await line.transaction(async (tx) => {
    for (let n = 0; n < 50; n += 1) await line.outbox.enqueue(tx, work, { n });
  });
  await eventually(() => proxy.acceptedCount >= 4);

  const parked = await line.database.rows("select from waybill.timer");
  proxy.pass();

  expect(parked).toEqual([]);
  await eventually(async () => (await line.jobs.counts()).total.succeeded === 50, {
    deadlineMs: 25_000,
  });
  await relay.stop();
});

test("A4: not in the caller's transaction, silently: a pool is refused, by name and by type", async () => {
  await using line = await startLine();

  // @ts-expect-error a pool is not a transaction
  const enqueue = (): Promise<unknown> => line.outbox.enqueue(line.database.pool, work, { n: 1 });

  await expect(enqueue()).rejects.toThrow(NotInTransactionError);
  expect(await line.database.rows("select from waybill.outbox")).toEqual([]);
});

test("a poison row blocks the head: its neighbours are published while it waits with its reason", async () => {
  await using line = await startLine();
  const seen: number[] = [];
  await line.transaction(async (tx) => {
    await line.outbox.enqueue(
      tx,
      work,
      { n: -1 },
      { route: { exchange: "no.such.exchange", routingKey: "x" } },
    );
    for (let n = 0; n < 10; n += 1) await line.outbox.enqueue(tx, work, { n });
  });

  line.startRelay();
  line.startWorker(["faults"], (worker) =>
    worker.handle(work, async (job) => {
      seen.push(job.payload.n);
    }),
  );

  await eventually(() => seen.length === 10);
  const parked = await eventually(async () => {
    const rows = await line.database.rows<{ reason: string; detail: string }>(
      "select reason, detail from waybill.timer",
    );
    return rows.length === 1 && rows;
  });
  expect(seen.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(parked[0]).toMatchObject({ reason: "refused" });
  expect(parked[0]?.detail).toContain("no.such.exchange");
});

test("G6: follow-up published from the handler: a handler that fails after enqueueing leaves no follow-up", async () => {
  await using line = await startLine();
  const followUp = defineJob({ name: "fault.follow", queue: "follow", payload: z.object({}) });
  let failures = 0;
  line.startRelay();
  line.startWorker(["faults", "follow"], (worker) => {
    worker.handleInTransaction(work, async (_job, tx: PoolClient) => {
      await line.outbox.enqueue(tx, followUp, {});
      if (failures < 2) {
        failures += 1;
        throw new Error("after the follow-up");
      }
    });
    worker.handle(followUp, async () => undefined);
  });

  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));

  await eventually(async () => (await line.jobs.get(jobId)).state === "succeeded");
  expect(failures).toBe(2);
  expect(
    await line.database.rows("select from waybill.outbox where type = 'fault.follow'"),
  ).toHaveLength(1);
});
