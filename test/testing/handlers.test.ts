import { expect, test } from "vitest";
import { NonRetryableError, PayloadError } from "@waybill/core";
import { drainJobs, enqueuedJobs, expectEnqueued, runHandler, waitForJob } from "@waybill/testing";
import { auditMail, customerCreated, sendWelcome, startApplication } from "./support.ts";

test("a handler runs inside the test's transaction, on what its schema makes of the payload", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;
  const worker = app.createWorker();
  worker.handleInTransaction(sendWelcome, async (job, tx) => {
    await tx.query("insert into sent values ($1, $2)", [job.payload.to, job.id]);
    await outbox.enqueue(tx, auditMail, { to: job.payload.to });
    return { sent: job.attempt === 2 && job.payload.at instanceof Date };
  });

  await app.inTest(async (tx) => {
    const result = await runHandler(
      worker,
      sendWelcome,
      { to: "ada@example.com", at: "2030-01-01T00:00:00Z" },
      { tx, attempt: 2 },
    );
    const { rows } = await tx.query("select email from sent");
    await expectEnqueued(tx, auditMail, { database, payload: { to: "ada@example.com" } });

    expect(result).toEqual({ sent: true });
    expect(rows).toEqual([{ email: "ada@example.com" }]);
  });
  expect(await app.test.rows("select * from sent")).toEqual([]);
});

test("what a handler throws reaches the test, and what it wrote before is undone", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  worker.handleInTransaction(sendWelcome, async (job, tx) => {
    await tx.query("insert into sent values ($1, $2)", [job.payload.to, job.id]);
    throw new NonRetryableError("no such customer");
  });

  await app.inTest(async (tx) => {
    await tx.query("insert into sent values ('before', null)");

    await expect(
      runHandler(worker, sendWelcome, { to: "ada@example.com" }, { tx }),
    ).rejects.toThrow("no such customer");

    expect((await tx.query("select email from sent")).rows).toEqual([{ email: "before" }]);
  });
});

test("a payload, a result and a missing handler are refused as in production", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  worker.handle(sendWelcome, async () => ({ sent: "yes" }) as unknown as { sent: boolean });

  await app.inTest(async (tx) => {
    const bad = { to: 7 } as unknown as { to: string };

    await expect(runHandler(worker, sendWelcome, bad, { tx })).rejects.toThrow(PayloadError);
    await expect(runHandler(worker, sendWelcome, { to: "a" }, { tx })).rejects.toThrow(
      /\(result\)\.sent/,
    );
    await expect(runHandler(worker, auditMail, { to: "a" }, { tx })).rejects.toThrow(
      /email\.audit: no handler is registered/,
    );
  });
});

test("an event's handler runs as its subscription", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  worker.on(customerCreated, { subscription: "billing" }, async (event, tx) => {
    await tx.query("insert into sent values ($1, $2)", [`customer ${event.payload.id}`, event.id]);
  });

  await app.inTest(async (tx) => {
    await runHandler(worker, customerCreated, { id: 7 }, { tx });

    expect((await tx.query("select email from sent")).rows).toEqual([{ email: "customer 7" }]);
  });
});

test("draining runs jobs, follow-ups and events until nothing is left, and leaves delayed ones", async () => {
  await using app = await startApplication();
  const { database, outbox } = app;
  const worker = app.createWorker();
  worker.handleInTransaction(sendWelcome, async (job, tx) => {
    await tx.query("insert into sent values ($1, $2)", [job.payload.to, job.id]);
    await outbox.publish(tx, customerCreated, { id: 1 });
    return { sent: true };
  });
  worker.on(customerCreated, { subscription: "billing" }, async (event, tx) => {
    await tx.query("insert into sent values ($1, $2)", ["billing", event.id]);
  });
  worker.on(customerCreated, { subscription: "search" }, async (event, tx) => {
    await tx.query("insert into sent values ($1, $2)", ["search", event.id]);
  });

  await app.inTest(async (tx) => {
    await outbox.enqueue(tx, sendWelcome, { to: "ada@example.com" });
    await outbox.enqueue(tx, sendWelcome, { to: "later@example.com" }, { delayMs: 60_000 });
    await outbox.enqueue(tx, auditMail, { to: "nobody handles this" });

    const first = await drainJobs(worker, { tx });
    const second = await drainJobs(worker, { tx });
    const third = await drainJobs(worker, { tx, delayed: true });

    expect(first.succeeded.map(({ name, queue }) => `${name} ${queue}`)).toEqual([
      "email.welcome emails",
      "customer.created billing",
      "customer.created search",
    ]);
    expect(first.unhandled.map(({ name }) => name)).toEqual(["email.audit"]);
    expect(second.succeeded).toEqual([]);
    expect(third.succeeded).toHaveLength(3);
    expect(await enqueuedJobs(tx, { database })).toHaveLength(5);
    expect((await tx.query("select email from sent")).rows).toHaveLength(6);
  });
});

test("draining without a transaction runs what was committed and records it as a worker does", async () => {
  await using app = await startApplication();
  const { database, jobs, outbox } = app;
  const worker = app.createWorker();
  worker.handle(sendWelcome, async (job) => {
    await job.transaction((tx) =>
      tx.query("insert into sent values ($1, $2)", [job.payload.to, job.id]),
    );
    if (job.payload.to.startsWith("bad") || job.attempt < 2) throw new Error("mail server away");
    return { sent: true };
  });
  const [good, bad] = await database.transaction(async (tx) => [
    await outbox.enqueue(tx, sendWelcome, { to: "ada@example.com" }),
    await outbox.enqueue(tx, sendWelcome, { to: "bad@example.com" }),
  ]);

  const drained = await drainJobs(worker, { onFailure: "retry" });

  expect(drained.succeeded.map(({ attempts }) => attempts)).toEqual([2]);
  expect(drained.failed.map(({ attempts, error }) => [attempts, (error as Error).message])).toEqual(
    [[3, "mail server away"]],
  );
  const ended = await waitForJob(jobs, good?.jobId ?? "", "succeeded");
  const dead = await waitForJob(jobs, bad?.jobId ?? "", "failed");
  expect([ended.attempt, ended.result]).toEqual([2, '{"sent":true}']);
  expect([dead.attempt, dead.failureMessage]).toEqual([3, "mail server away"]);
  await expect(waitForJob(jobs, bad?.jobId ?? "", "succeeded")).rejects.toThrow(
    /to be succeeded: it is failed \(attempt 3, last failure: mail server away\)/,
  );
});

test("a failure ends the draining with the handler's error and leaves the job queued", async () => {
  await using app = await startApplication();
  const { database, jobs, outbox } = app;
  const worker = app.createWorker();
  worker.handleInTransaction(sendWelcome, async () => {
    throw new Error("mail server away");
  });
  const { jobId } = await database.transaction((tx) =>
    outbox.enqueue(tx, sendWelcome, { to: "ada@example.com" }),
  );

  await expect(drainJobs(worker)).rejects.toThrow("mail server away");

  await waitForJob(jobs, jobId, "queued");
  await expect(waitForJob(jobs, jobId, "succeeded", { deadlineMs: 0 })).rejects.toThrow(
    /within 0 ms: it is queued/,
  );
});

test("jobs that enqueue themselves end at the limit, with their names", async () => {
  await using app = await startApplication();
  const { outbox } = app;
  const worker = app.createWorker();
  worker.handleInTransaction(auditMail, async (job, tx) => {
    await outbox.enqueue(tx, auditMail, job.payload);
  });

  await app.inTest(async (tx) => {
    await outbox.enqueue(tx, auditMail, { to: "me" });

    await expect(drainJobs(worker, { tx, maxJobs: 5 })).rejects.toThrow(
      /5 jobs were run and more wait \(the last: email\.audit/,
    );
  });
});
