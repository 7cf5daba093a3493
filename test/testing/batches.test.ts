import { expect, test } from "vitest";
import { PayloadError } from "@waybill/core";
import { drainJobs, runBatch, runHandler } from "@waybill/testing";
import { auditMail, sendWelcome, startApplication } from "./support.ts";

test("a batch runs inside the test's transaction, and each job has its outcome", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  const sizes: number[] = [];
  worker.handleBatch(sendWelcome, { maxJobs: 3, maxWaitMs: 60_000 }, async (jobs) => {
    sizes.push(jobs.length);
    await Promise.all(
      jobs.map(async (job) => {
        await job.transaction((tx) =>
          tx.query("insert into sent values ($1, $2)", [job.payload.to, job.id]),
        );
        if (job.payload.to === "bad") job.fail(new Error("no such customer"));
        else job.succeed({ sent: true });
      }),
    );
  });

  await app.inTest(async (tx) => {
    const outcomes = await runBatch(
      worker,
      sendWelcome,
      [{ to: "a" }, { to: "bad" }, { to: "c" }, { to: "d" }],
      { tx },
    );
    const { rows } = await tx.query("select email from sent order by email");

    expect(outcomes).toEqual([
      { status: "fulfilled", value: { sent: true } },
      { status: "rejected", reason: new Error("no such customer") },
      { status: "fulfilled", value: { sent: true } },
      { status: "fulfilled", value: { sent: true } },
    ]);
    expect(sizes).toEqual([3, 1]);
    expect(rows.map(({ email }) => email as unknown)).toEqual(["a", "bad", "c", "d"]);
    await expect(
      runBatch(worker, sendWelcome, [{ to: 7 } as unknown as { to: string }], { tx }),
    ).rejects.toThrow(PayloadError);
  });
  expect(await app.test.rows("select * from sent")).toEqual([]);
});

test("a single job and a drained one reach a batch handler as batches of one", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  const sizes: number[] = [];
  worker.handleBatch(auditMail, { maxWaitMs: 60_000 }, (jobs) => {
    sizes.push(jobs.length);
    if (jobs.some(({ payload }) => payload.to === "bad")) throw new Error("refused");
  });

  await app.inTest(async (tx) => {
    await runHandler(worker, auditMail, { to: "a" }, { tx });
    await expect(runHandler(worker, auditMail, { to: "bad" }, { tx })).rejects.toThrow("refused");
    await app.outbox.enqueue(tx, auditMail, { to: "b" });
    await app.outbox.enqueue(tx, auditMail, { to: "c" });

    expect((await drainJobs(worker, { tx })).succeeded).toHaveLength(2);
  });
  expect(sizes).toEqual([1, 1, 1, 1]);
});
