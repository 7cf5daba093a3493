import { defineJob } from "@waybill/core";
import { drainJobs, runHandler } from "@waybill/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { startApplication } from "./support.ts";

const mailV1 = defineJob({
  name: "email.send",
  queue: "emails",
  payload: z.object({ address: z.string() }),
});
const mailV2 = defineJob({
  name: "email.send",
  queue: "emails",
  version: 2,
  payload: z.object({ to: z.array(z.string()) }),
  upcasters: { 1: (payload) => ({ to: [mailV1.payload.parse(payload).address] }) },
});

test("an application's tests can send an old version to the new handler", async () => {
  await using app = await startApplication();
  const worker = app.createWorker();
  worker.handleInTransaction(mailV2, async (job, tx) => {
    await tx.query("insert into sent values ($1, $2)", [job.payload.to.join(), job.id]);
  });

  const sent = await app.inTest(async (tx) => {
    await runHandler(worker, mailV1, { address: "ada@example.com" }, { tx });
    await app.outbox.enqueue(tx, mailV1, { address: "grace@example.com" });
    await app.outbox.enqueue(tx, mailV2, { to: ["a@example.com", "b@example.com"] });
    const drained = await drainJobs(worker, { tx });
    expect(drained.succeeded.map(({ version }) => version)).toEqual([1, 2]);
    return (await tx.query<{ email: string }>("select email from sent")).rows;
  });

  expect(sent.map(({ email }) => email)).toEqual([
    "ada@example.com",
    "grace@example.com",
    "a@example.com,b@example.com",
  ]);
});
