/** Headers and properties that claim what is the database's to decide: S6. */

import { defineJob, newJobId } from "@waybill/core";
import { connect } from "amqplib";
import { expect, test } from "vitest";
import { z } from "zod";
import { eventually } from "../support/index.ts";
import { note, startGuardedLine, write, writesNotes } from "./guarded-line.ts";

const body = Buffer.from('{"n":1}');
const many = Array.from({ length: 100 }, (_, n) => ({
  queue: "q",
  reason: "rejected",
  count: 1_000_000 + n,
}));

test("S6: how often a job is tried is decided by the database, whatever its messages claim", async () => {
  await using guarded = await startGuardedLine();
  let attempts = 0;
  await guarded.startWorker(["notes"], (worker) =>
    worker.handleInTransaction(note, () => {
      attempts += 1;
      throw new Error("broken");
    }),
  );
  guarded.startRelay();
  const claims = [
    { "waybill-attempts": "99", "x-delivery-count": 99, "x-acquired-count": 99 },
    { "waybill-attempts": "-99", "waybill-attempt": 0, attempt: 0, attempts: 0 },
    { "x-death": many, "x-first-death-reason": "rejected", "x-retry-count": 99 },
    { "waybill-dispatch": 1_000_000_000, "waybill-death": 1_000_000_000 },
    { "waybill-dispatch": -1, "waybill-death": -1 },
    { "waybill-dispatch": "2e9", "waybill-version": "1.0" },
  ];
  const ids = claims.map(() => newJobId());

  for (const [n, headers] of claims.entries()) {
    await guarded.put("notes", {
      content: body,
      properties: { type: note.name, messageId: ids[n], headers },
    });
  }

  await eventually(async () => expect(await guarded.refused()).toHaveLength(claims.length));
  // The retry of the forged dispatch is beyond the bounds, and ends the job.
  const allowed = claims.length * note.options.retry.maxAttempts - 1;
  expect(attempts).toBe(allowed);
  // Once a job has failed, no claim of another dispatch begins it anew.
  for (const headers of [{ "waybill-dispatch": 77 }, { "waybill-death": 5 }, claims[2]]) {
    await guarded.put("notes", {
      content: body,
      properties: { type: note.name, messageId: ids[0], headers },
    });
  }
  await guarded.put("notes", {
    content: body,
    properties: { type: "note.other", messageId: newJobId() },
  });
  await eventually(async () =>
    expect(
      await guarded.line.database.rows("select from waybill.timer where reason = 'no_handler'"),
    ).toHaveLength(1),
  );
  expect(attempts).toBe(allowed);
});

test("S6: traceparent, priority, expiration, user and application are bounded, and nobody is answered", async () => {
  await using guarded = await startGuardedLine();
  const seen: Record<string, unknown>[] = [];
  const job = defineJob({ name: "note.seen", queue: "notes", payload: z.looseObject({}) });
  await guarded.startWorker(["notes"], (worker) =>
    worker.handleInTransaction(job, async ({ headers, priority, correlationId }, tx) => {
      seen.push({ ...headers, priority, correlationId });
      await write(tx, "ran");
    }),
  );
  const connection = await connect(guarded.line.vhost.url);
  const channel = await connection.createChannel();
  const { queue: replies } = await channel.assertQueue("", { exclusive: true });
  const forged: Record<string, unknown>[] = [
    { headers: { traceparent: "x".repeat(20_000), tracestate: "\u0000" } },
    { headers: { traceparent: ["00"], tracestate: { a: 1 }, baggage: 7 } },
    { priority: 255 },
    { headers: { "waybill-priority": 1_000_000 } },
    { expiration: "3600000" },
    { replyTo: replies, correlationId: "c".repeat(255) },
    { appId: "waybill", headers: { "app-id": "billing", "user-id": "admin" } },
    { headers: { CC: ["waybill.notes"], "waybill-on-terminal": "user.promote" } },
    { headers: Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`h${n}`, "v"])) },
  ];

  for (const properties of forged) {
    await guarded.put("notes", { content: body, properties: { type: job.name, ...properties } });
  }

  await eventually(async () => expect(await guarded.ran()).toHaveLength(forged.length));
  for (const headers of seen) {
    const text = Object.entries(headers).map(([name, value]) => `${name}${JSON.stringify(value)}`);
    expect(text.length).toBeLessThanOrEqual(66);
    expect(Buffer.byteLength(text.join(""))).toBeLessThanOrEqual(17_000);
    expect(Object.keys(headers).filter((name) => /^(x-|waybill-|b?cc$)/i.test(name))).toEqual([]);
    expect(Number(headers["priority"])).toBeLessThanOrEqual(255);
  }
  expect((await channel.checkQueue(replies)).messageCount).toBe(0);
  // Nothing was published for anybody: no answer, no event, no copy.
  expect(await guarded.line.database.rows("select kind, type from waybill.outbox")).toEqual([]);
  await connection.close();
});

test("S6: a message cannot end, expire or take the slot of a job that it is not", async () => {
  await using guarded = await startGuardedLine();
  await guarded.startWorker(["notes"], writesNotes);

  await guarded.put("notes", {
    content: body,
    properties: {
      type: note.name,
      headers: { "waybill-slot": "waybill", "waybill-expires-at": "soon", "waybill-dispatch": "x" },
    },
  });

  await eventually(async () => expect(await guarded.ran()).toEqual(["1"]));
  expect(await guarded.line.database.rows("select from waybill.slot")).toEqual([]);
});
