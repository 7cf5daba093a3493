/** Reports on how a delivery and its job end, as docs/reliability.md numbers them. */

import { defineJob, InvalidTransitionError, NonRetryableError } from "@waybill/core";
import { connect } from "amqplib";
import { expect, test } from "vitest";
import { z } from "zod";
import { startPrivatePostgres } from "../../scripts/services/index.ts";
import { eventually, startProxy } from "../support/index.ts";
import { type Line, startLine } from "../support/line.ts";
import {
  consuming,
  createLedger,
  effectsOf,
  look,
  queue,
  sentinel,
  sentinelRuns,
  stateBecomes,
  writeEffect,
} from "./support.ts";

const payload = z.object({ n: z.int() });
const retry = { maxAttempts: 3, initialDelayMs: 10, maxDelayMs: 10 } as const;

test("A10: success, retry, dead letter, cancellation, duplicate, unknown and unreadable messages each settle their delivery, and nothing is left unacknowledged", async () => {
  await using line = await startLine();
  await createLedger(line);
  const good = defineJob({ name: "good", queue, payload });
  const flaky = defineJob({ name: "flaky", queue, payload, retry });
  const doomed = defineJob({ name: "doomed", queue, payload, retry });
  const unknown = defineJob({ name: "unknown", queue, payload });
  line.startRelay();
  const worker = line.startWorker([queue], (it) => {
    it.handleInTransaction(good, (job, tx) => writeEffect(tx, job));
    it.handle(flaky, ({ attempt }) => {
      if (attempt < 3) throw new Error("not yet");
    });
    it.handle(doomed, () => {
      throw new NonRetryableError("never");
    });
  });
  await consuming(worker);
  await using hand = await openHand(line);

  await line.transaction(async (tx) => {
    for (let n = 0; n < 20; n += 1) {
      await line.outbox.enqueue(tx, good, { n });
      await line.outbox.enqueue(tx, flaky, { n });
      await line.outbox.enqueue(tx, doomed, { n });
      await line.outbox.enqueue(tx, unknown, { n });
      await line.outbox.enqueue(tx, good, { n }, { expiresAt: new Date(Date.now() + 1) });
    }
  });
  const twice = await line.transaction((tx) => line.outbox.enqueue(tx, good, { n: 21 }));
  for (let n = 0; n < 20; n += 1) {
    hand.send({ messageId: twice.jobId, type: "good" }, '{"n":21}');
    hand.send({ type: "good" }, `{"broken ${n}`);
  }
  await hand.confirmed();

  await eventually(async () => {
    const states = await line.database.rows(
      "select type, state, count(*)::int as n from waybill.inbox group by type, state order by type, state",
    );
    // An expired job may have been quick enough to run.
    const ended = (type: string, ...names: string[]): number =>
      states
        .filter((row) => row["type"] === type && names.includes(String(row["state"])))
        .reduce((sum, row) => sum + Number(row["n"]), 0);
    expect(ended("flaky", "succeeded")).toBe(20);
    expect(ended("doomed", "failed")).toBe(20);
    expect(ended("good", "succeeded", "cancelled")).toBe(41);
    expect(ended("good", "failed")).toBe(20);
    expect(
      await line.database.rows("select from waybill.timer where reason = 'no_handler'"),
    ).toHaveLength(20);
    // A copy that was held back while its job ran is on its way once more.
    expect(await line.database.rows("select from waybill.timer where reason = 'held'")).toEqual([]);
    expect(worker.it.status().queues).toMatchObject([{ running: 0, waiting: 0 }]);
    expect(await look(line)).toMatchObject({ ready: 0 });
  });
  await worker.stop();

  // A delivery that was not settled would be back; one that was settled twice had closed the channel.
  expect(await look(line)).toEqual({ ready: 0, consumers: 0 });
  expect(await effectsOf(line, twice.jobId)).toBe(1);
  expect(
    await line.database.rows("select from effect group by job_id having count(*) <> 1"),
  ).toEqual([]);
}, 60_000);

/** Publishes to the queue by hand. */
async function openHand(line: Line) {
  const model = await connect(line.vhost.url);
  const channel = await model.createConfirmChannel();
  return {
    send(properties: Record<string, unknown>, body: string): void {
      channel.sendToQueue(`${line.vhost.prefix}.${queue}`, Buffer.from(body), properties);
    },
    confirmed: () => channel.waitForConfirms(),
    [Symbol.asyncDispose]: () => model.close(),
  };
}

test("A21: a job that is cancelled while its COMMIT fails ends once as cancelled, and restarts run nothing", async () => {
  await using line = await startLine();
  await createLedger(line);
  await line.database.rows(
    "create table strict (n int, constraint strict_once unique (n) deferrable initially deferred)",
  );
  const strict = defineJob({ name: "strict", queue, payload, retry });
  let runs = 0;
  const start = () =>
    line.startWorker([queue], (it) => {
      it.handle(sentinel, () => undefined);
      it.handleInTransaction(strict, async (job, tx) => {
        runs += 1;
        await writeEffect(tx, job);
        await tx.query("insert into strict values (1), (1)");
        await line.jobs.cancel(job.id);
      });
    });
  line.startRelay();
  let worker = start();

  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, strict, { n: 1 }));
  await stateBecomes(line, jobId, "cancelled");
  for (let restart = 0; restart < 2; restart += 1) {
    await worker.stop();
    worker = start();
    await sentinelRuns(line);
  }

  expect(runs).toBe(1);
  expect(await effectsOf(line, jobId)).toBe(0);
  expect((await line.jobs.get(jobId)).state).toBe("cancelled");
  expect(await line.database.rows("select from waybill.timer")).toEqual([]);
  expect(await line.database.rows("select from waybill.dead_letter")).toEqual([]);
});

test("A22, F7: a dead letter that is retried runs once more, closes, and stays closed over restarts; a second retry is refused", async () => {
  await using line = await startLine();
  await createLedger(line);
  const fixed = defineJob({ name: "fixed", queue, payload, retry });
  let isBroken = true;
  let runs = 0;
  const start = () =>
    line.startWorker([queue], (it) => {
      it.handle(sentinel, () => undefined);
      it.handleInTransaction(fixed, async (job, tx) => {
        runs += 1;
        await writeEffect(tx, job);
        if (isBroken) throw new NonRetryableError("broken");
      });
    });
  line.startRelay();
  let worker = start();
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, fixed, { n: 1 }));
  await stateBecomes(line, jobId, "failed");

  isBroken = false;
  await line.jobs.retry(jobId, { actor: "ann" });
  await stateBecomes(line, jobId, "succeeded");
  for (let restart = 0; restart < 2; restart += 1) {
    await worker.stop();
    worker = start();
    await sentinelRuns(line);
  }

  expect(runs).toBe(2);
  expect(await effectsOf(line, jobId)).toBe(1);
  expect(await line.database.rows("select from waybill.dead_letter")).toEqual([]);
  expect(await line.database.rows("select action, actor, id from waybill.audit_log")).toEqual([
    { action: expect.stringMatching(/redrive|retry/) as string, actor: "ann", id: jobId },
  ]);
  await expect(line.jobs.retry(jobId)).rejects.toThrow(InvalidTransitionError);
});

test("A24, F4: while the store of dead letters is down the delivery of a failed job stays unsettled, and afterwards there is one dead letter", async () => {
  await using server = await startPrivatePostgres();
  await using line = await startLine({ database: { serverUrl: server.url } });
  await using proxy = await startProxy(line.vhost.url);
  const once = defineJob({ name: "once", queue, payload, retry: { maxAttempts: 1 } });
  let runs = 0;
  line.startRelay();
  const worker = line.startWorker(
    [queue],
    (it) =>
      it.handle(once, async () => {
        runs += 1;
        await server.kill("SIGKILL");
        throw new Error("the handler, and the store for its failure, at once");
      }),
    { broker: { url: proxy.url(line.vhost.url), prefix: line.vhost.prefix } },
  );
  await consuming(worker);
  const { jobId } = await line.transaction((tx) => line.outbox.enqueue(tx, once, { n: 1 }));

  await eventually(() => worker.it.status().database === "unavailable");
  await eventually(() => expect(worker.it.status().queues).toMatchObject([{ consumer: "paused" }]));
  // A delivery that was settled does not come back.
  proxy.cut();
  await eventually(async () => expect((await look(line)).ready).toBe(1));
  await server.start();

  await stateBecomes(line, jobId, "failed");
  await eventually(async () => {
    expect(await look(line, `${queue}.dlq`)).toMatchObject({ ready: 1 });
    expect((await look(line)).ready).toBe(0);
    expect(worker.it.status().queues).toMatchObject([{ running: 0, waiting: 0 }]);
  });
  expect(runs).toBe(1);
  expect(
    await line.database.rows("select attempt, crashes, deaths from waybill.inbox where id = $1", [
      jobId,
    ]),
  ).toEqual([{ attempt: 1, crashes: 0, deaths: 1 }]);
  expect(await line.database.rows("select failure_class from waybill.dead_letter")).toEqual([
    { failure_class: "unknown" },
  ]);
}, 60_000);
