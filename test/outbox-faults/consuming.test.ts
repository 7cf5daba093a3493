/**
 * What services that write outboxes by hand get wrong on the consuming side (docs/why.md): each test
 * is named after the mistake.
 */

import { defineEvent, defineJob } from "@waybill/core";
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

test("duplicate means present, not finished: a job that failed is run again, not taken for a duplicate", async () => {
  await using line = await startLine();
  const attempts: number[] = [];
  line.startRelay();
  line.startWorker(["faults"], (worker) =>
    worker.handle(work, async (job) => {
      attempts.push(job.attempt);
      if (job.attempt < 3) throw new Error("not yet");
    }),
  );

  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));

  await eventually(async () => (await line.jobs.get(jobId)).state === "succeeded");
  expect(attempts).toEqual([1, 2, 3]);
});

test("dedupe outside the effect's transaction: an attempt that fails after its effect leaves neither effect nor mark", async () => {
  await using line = await startLine();
  await line.database.rows("create table effect (job_id uuid, attempt int)");
  line.startRelay();
  line.startWorker(["faults"], (worker) =>
    worker.handleInTransaction(work, async (job, tx) => {
      await tx.query("insert into effect values ($1, $2)", [job.id, job.attempt]);
      if (job.attempt === 1) throw new Error("after the effect");
    }),
  );

  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));

  await eventually(async () => (await line.jobs.get(jobId)).state === "succeeded");
  expect(await line.database.rows("select * from effect")).toEqual([{ job_id: jobId, attempt: 2 }]);
});

test("retry republished to the fan-out exchange: the retry of one subscription does not reach the other", async () => {
  await using line = await startLine();
  const paid = defineEvent({ name: "order.paid", payload: z.object({ order: z.string() }) });
  const seen: string[] = [];
  line.startWorker([], (worker) => {
    worker.on(paid, { subscription: "billing" }, async () => {
      seen.push("billing");
      if (seen.filter((name) => name === "billing").length < 3) throw new Error("not yet");
    });
    worker.on(paid, { subscription: "mails" }, async () => {
      seen.push("mails");
    });
  });
  await eventually(async () => {
    const queues = await line.vhost.management.request("GET", `/api/queues/${line.vhost.name}`);
    return JSON.stringify(queues).includes(`${line.vhost.prefix}.mails`);
  });
  line.startRelay();

  const { jobId } = await line.transaction((tx) => line.outbox.publish(tx, paid, { order: "1" }));

  await eventually(async () => {
    const rows = await line.database.rows<{ queue: string; state: string }>(
      "select queue, state from waybill.inbox where id = $1 order by queue",
      [jobId],
    );
    return rows.length === 2 && rows.every((row) => row.state === "succeeded");
  });
  expect(seen.filter((name) => name === "mails")).toHaveLength(1);
  expect(seen.filter((name) => name === "billing")).toHaveLength(3);
});

test("no resubscribe after a reconnect: a worker whose connection was reset consumes again by itself", async () => {
  await using line = await startLine();
  await using proxy = await startProxy(line.vhost.url);
  const ran: number[] = [];
  line.startRelay();
  line.startWorker(
    ["faults"],
    (worker) =>
      worker.handle(work, async (job) => {
        ran.push(job.payload.n);
      }),
    { broker: { url: proxy.url(line.vhost.url), prefix: line.vhost.prefix } },
  );
  await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 1 }));
  await eventually(() => ran.includes(1));

  proxy.cut();
  await line.transaction((tx) => line.outbox.enqueue(tx, work, { n: 2 }));

  await eventually(() => ran.includes(2));
  expect(ran).toEqual([1, 2]);
});
