/** Names and keys that are meant to break out of their place: S1, and the scope of keys: S19. */

import { defineDependency, defineJob, NameError, topologyNames, WaybillError } from "@waybill/core";
import { createOutbox, createQueues, migrate, pgDatabase, statementsFor } from "@waybill/postgres";
import * as fc from "fast-check";
import type { PoolClient } from "pg";
import { expect, test } from "vitest";
import { z } from "zod";
import { startApplication } from "../postgres/application.ts";

const payload = z.unknown();

const hostile: readonly string[] = [
  "'",
  '"',
  "''; drop schema waybill cascade; --",
  '"; drop schema waybill cascade; --',
  "$$; drop schema waybill cascade; $$",
  "$1",
  "${1}",
  "%I %s",
  "\\",
  "\\'",
  "x\u0000y",
  "a\nb",
  "\u001b[31m",
  "waybill.outbox",
  "../../etc/passwd",
  "#",
  "*",
  "*.*",
  "a.b.#",
  "amq.direct",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "NULL",
  "null",
  "é",
  "e\u0301",
  "ﬁ",
  "İ",
  "\u202egnp",
  "\ud800",
  "🦆",
  `${"k".repeat(63)}a`,
  `${"k".repeat(63)}b`,
  "k".repeat(254) + "a",
  "k".repeat(254) + "b",
  "k".repeat(256),
  "🦆".repeat(64),
];

/** What somebody would try: the list, pieces of it, and anything at all. */
const names = fc.oneof(
  fc.constantFrom(...hostile),
  fc.tuple(fc.constantFrom(...hostile), fc.constantFrom(...hostile)).map((parts) => parts.join("")),
  fc.string({ unit: "binary", maxLength: 70 }),
);

/** What it gives, or undefined where it throws an error of Waybill's that shows nothing of the database. */
function refusable<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch (error) {
    expect(error).toBeInstanceOf(WaybillError);
    return undefined;
  }
}

test("S1: names of queues, types, schemas and dependencies are of the allowed letters, or are refused", () => {
  fc.assert(
    fc.property(names, (name) => {
      const job = refusable(() => defineJob({ name, queue: "q", payload }));
      const queue = refusable(() => defineJob({ name: "t", queue: name, payload }));
      const dependency = refusable(() => defineDependency({ name }));
      const schema = refusable(() => statementsFor(name));

      const type = /^[A-Za-z0-9][A-Za-z0-9_:/.-]{0,127}$/;
      const accepted: readonly (readonly [unknown, RegExp])[] = [
        [job, type],
        [dependency, type],
        [queue, /^[a-z0-9][a-z0-9._-]{0,62}$/],
        [schema, /^[a-z_][a-z0-9_]{0,39}$/],
      ];
      const broken = accepted.filter(([made, rule]) => made !== undefined && !rule.test(name));
      expect(broken).toEqual([]);
    }),
    { numRuns: 2_000, examples: hostile.map((name) => [name]) },
  );
});

test("S1: no two queues have a name at the broker in common, also with their dead-letter queues", () => {
  const queue = fc
    .stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/)
    .filter(
      (name) => refusable(() => defineJob({ name: "t", queue: name, payload })) !== undefined,
    );
  const broker = topologyNames();

  fc.assert(
    fc.property(queue, queue, (a, b) => {
      const places = [a, ...(a === b ? [] : [b])].flatMap((name) => [
        broker.queueName(name),
        broker.deadLetterQueueName(name),
      ]);
      expect(new Set(places).size).toBe(places.length);
      for (const place of places) expect(Buffer.byteLength(place)).toBeLessThanOrEqual(255);
    }),
    { numRuns: 1_000, examples: [["a", "a.dlq.b"]] },
  );
});

test("S1: keys and texts of an enqueue are stored byte for byte, or refused before a statement", async () => {
  await using app = await startApplication();
  const job = defineJob({ name: "t", queue: "q", payload });
  const stored = new Map<string, string>();

  for (const text of hostile) {
    await app.database.transaction(async (tx) => {
      const options = { idempotencyKey: text, orderingKey: text, concurrencyKey: text };
      const headers = { tenant: text };
      const given = { ...options, headers, correlationId: text };
      try {
        const { jobId, deduplicated } = await app.outbox.enqueue(tx, job, { text: "x" }, given);
        expect(deduplicated, text).toBe(false);
        stored.set(jobId, text);
      } catch (error) {
        expect(error).toBeInstanceOf(WaybillError);
        expect((error as Error).message).not.toMatch(/syntax error|invalid byte|SQLSTATE/);
      }
      // Nothing was sent where it was refused: the transaction is still good.
      await tx.query("select 1");
    });
  }

  const rows = await app.db.rows<Record<"id" | "o" | "c" | "h" | "k" | "i", string>>(
    `select o.id, o.ordering_key as o, o.correlation_id as c, o.headers ->> 'tenant' as h,
            o.headers ->> 'waybill-concurrency-key' as k, i.key as i
     from waybill.outbox as o join waybill.idempotency_key as i on i.job_id = o.id`,
  );
  expect(rows).toHaveLength(stored.size);
  expect(stored.size).toBeGreaterThan(25);
  for (const { id, ...texts } of rows) {
    expect(new Set(Object.values(texts))).toEqual(new Set([stored.get(id)]));
  }
});

test("S1: a name that gets past the definitions is refused by the database, and runs nothing", async () => {
  await using app = await startApplication();

  for (const text of hostile) {
    for (const job of [
      { type: "t", queue: text, payload: 1 },
      { type: text, queue: "q", payload: 1 },
    ]) {
      const answer = await app.pool
        .query("select * from waybill.enqueue($1::jsonb)", [JSON.stringify([job])])
        .then(
          () => "taken",
          (error: { code?: string }) => error.code,
        );
      // Refused by waybill.enqueue, or by PostgreSQL for text that is none; never a syntax error.
      expect(["taken", "22023", "22P05", "22P02"], text).toContain(answer);
    }
  }

  const taken = await app.db.rows<{ queue: string }>("select distinct queue from waybill.outbox");
  for (const { queue } of taken) expect(queue).toMatch(/^[a-z0-9][a-z0-9._-]{0,62}$/);
});

test("S1: schemas whose names differ in the last of 40 letters share nothing", async () => {
  await using app = await startApplication();
  const schemas = ["a", "b"].map((end) => `${"s".repeat(39)}${end}`);
  const database = pgDatabase<PoolClient>(app.pool);
  const job = defineJob({ name: "t", queue: "q", payload });
  for (const schema of schemas) await migrate(app.pool, { schema });

  const [first = ""] = schemas;
  const outbox = createOutbox({ database, schema: first });
  await database.transaction((tx) => outbox.enqueue(tx, job, 1, { idempotencyKey: "k" }));

  const counts = await Promise.all(
    schemas.map(async (schema) => (await app.db.rows(`select from "${schema}".outbox`)).length),
  );
  expect(counts).toEqual([1, 0]);
  await expect(migrate(app.pool, { schema: `${first}c` })).rejects.toThrow(NameError);
  expect(() => createQueues({ database, schema: 'waybill"; drop schema waybill; --' })).toThrow(
    NameError,
  );
});

test("S19: a key that is taken by one type is free for every other, and has 1 to 255 bytes", async () => {
  await using app = await startApplication();
  const [ours, theirs] = ["tenant-a.charge", "tenant-b.charge"].map((name) =>
    defineJob({ name, queue: "charges", payload }),
  );

  const receipts = await app.database.transaction(async (tx) => {
    const enqueue = (job: typeof ours, key: string) =>
      app.outbox.enqueue(tx, job as NonNullable<typeof ours>, 1, { idempotencyKey: key });
    return [
      await enqueue(ours, "order-7"),
      await enqueue(theirs, "order-7"),
      await enqueue(ours, "order-7"),
      await enqueue(ours, "k".repeat(255)),
    ];
  });

  expect(receipts.map(({ deduplicated }) => deduplicated)).toEqual([false, false, true, false]);
  await app.database.transaction(async (tx) => {
    for (const key of ["", "k".repeat(256), "🦆".repeat(64), "a\u0000b"]) {
      await expect(
        app.outbox.enqueue(tx, ours as NonNullable<typeof ours>, 1, { idempotencyKey: key }),
      ).rejects.toBeInstanceOf(NameError);
    }
  });
  await expect(
    app.pool.query("select * from waybill.enqueue($1::jsonb)", [
      JSON.stringify([{ type: "t", queue: "q", payload: 1, idempotency_key: "k".repeat(256) }]),
    ]),
  ).rejects.toThrow(/idempotency_key of other than 1 to 255 bytes/);
});
