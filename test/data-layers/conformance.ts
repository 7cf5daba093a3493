/**
 * What Waybill promises on every data layer, one case each. The cases know no test runner, so that
 * they also run where Vitest does not.
 */

import assert from "node:assert/strict";

import { type ErrorCode, QueueFullError, WaybillError } from "@waybill/core";
import { sqlStateOf } from "@waybill/postgres";

import { type Bench, note } from "./bench.ts";

/** A guarantee by its name, and the check of it, which throws where it does not hold. */
export type Case = readonly [name: string, check: <Tx>(bench: Bench<Tx>) => Promise<void>];

const has =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    WaybillError.is(error) && error.code === code;

const isNotInTransaction = has("WAYBILL_NOT_IN_TRANSACTION");

/** Every kind of JSON value, and texts that a careless layer mangles. */
const values = [
  null,
  true,
  false,
  0,
  -1.5e-7,
  9_007_199_254_740_991,
  "",
  'it\'s "quoted", a \\ backslash, {braces} and $1 or ? or :name',
  "emoji 🚚 é 漢字 \u2028 \u007f \t\r\n",
  [],
  [[1, [2, ["three", null]], []], { deep: [{ er: [] }] }],
  {},
  { 'a key\'s "name"': { list: ["{", "}", ","], none: null, yes: true } },
  { text: "x".repeat(5_000) },
];

/** postgres.js does not know when its transactions have ended, nor does Drizzle. */
export const endedTakesNoJob = "a transaction that has ended takes no job";

/** Sequelize has no object that stands for "no transaction". */
const autocommitIsAsked = "autocommit: true enqueues without a transaction, when asked for by name";

/** The suite. */
export const conformance: readonly Case[] = [
  [
    "a commit keeps the row and the job, written by one transaction",
    async ({ layer, outbox, order, rows, orderIds }) => {
      const { jobId, deduplicated } = await layer.database.transaction(async (tx) => {
        await order(tx, 1);
        return await outbox.enqueue(tx, note, { text: "first" });
      });

      assert.equal(deduplicated, false);
      assert.deepEqual(await orderIds(), [1]);
      assert.deepEqual(
        await rows(
          `select o.id::text as id, o.type, o.queue, o.xmin::text = r.xmin::text as together
           from waybill.outbox as o cross join orders as r`,
        ),
        [{ id: jobId, type: "note.write", queue: "notes", together: true }],
      );
    },
  ],
  [
    "a rollback keeps neither the row nor the job, and the error passes unchanged",
    async ({ layer, outbox, order, orderIds, payloads }) => {
      const undo = new Error("no");

      await assert.rejects(
        layer.database.transaction(async (tx) => {
          await order(tx, 1);
          await outbox.enqueue(tx, note, "first");
          throw undo;
        }),
        (error) => error === undo,
      );

      assert.deepEqual(await orderIds(), []);
      assert.deepEqual(await payloads(), []);
    },
  ],
  [
    "an error of the database rolls back, passes unchanged and shows its SQLSTATE",
    async ({ layer, outbox, order, orderIds, payloads }) => {
      let thrown: unknown;

      await assert.rejects(
        layer.database.transaction(async (tx) => {
          await order(tx, 1);
          await outbox.enqueue(tx, note, "first");
          try {
            await order(tx, 1);
          } catch (error) {
            thrown = error;
            throw error;
          }
        }),
        (error) => error === thrown && sqlStateOf(error) === "23505",
      );

      assert.deepEqual(await orderIds(), []);
      assert.deepEqual(await payloads(), []);
    },
  ],
  [
    "a savepoint's rollback takes back what was enqueued inside it and nothing else",
    async ({ layer, outbox, order, orderIds, payloads }) => {
      const undo = new Error("no");

      await layer.database.transaction(async (tx) => {
        await outbox.enqueue(tx, note, "before");
        await assert.rejects(
          Promise.resolve(
            layer.savepoint(tx, async (nested) => {
              await order(nested, 1);
              await outbox.enqueue(nested, note, "taken back");
              throw undo;
            }),
          ),
          (error) => error === undo,
        );
        await layer.savepoint(tx, async (nested) => {
          await order(nested, 2);
          await outbox.enqueue(nested, note, "inside");
        });
        await outbox.enqueue(tx, note, "after");
      });

      assert.deepEqual(await orderIds(), [2]);
      assert.deepEqual(await payloads(), ["before", "inside", "after"]);
    },
  ],
  [
    "every kind of JSON value is stored as it was given",
    async ({ layer, outbox, payloads }) => {
      await layer.database.transaction(async (tx) => {
        for (const value of values) await outbox.enqueue(tx, note, value);
      });
      await layer.database.transaction((tx) =>
        outbox.enqueueMany(
          tx,
          note,
          values.map((payload) => ({ payload })),
        ),
      );

      assert.deepEqual(await payloads(), [...values, ...values]);
    },
  ],
  [
    "headers, keys and text options are stored as they were given",
    async ({ layer, outbox, rows }) => {
      const text = 'it\'s "quoted", a \\ and $1 or ? or :name 🚚';

      await layer.database.transaction((tx) =>
        outbox.enqueue(tx, note, 1, {
          headers: { tenant: text },
          orderingKey: text,
          correlationId: text,
          idempotencyKey: text,
        }),
      );

      assert.deepEqual(
        await rows("select headers, ordering_key, correlation_id from waybill.outbox"),
        [{ headers: { tenant: text }, ordering_key: text, correlation_id: text }],
      );
      assert.deepEqual(await rows("select key from waybill.idempotency_key"), [{ key: text }]);
    },
  ],
  [
    "after a failed statement nothing is enqueued, though its error was swallowed",
    async ({ layer, outbox, order, orderIds, payloads }) => {
      const swallowed = layer.database.transaction(async (tx) => {
        await order(tx, 1);
        await outbox.enqueue(tx, note, "before");
        await Promise.resolve(order(tx, 1)).catch(() => undefined);
        await assert.rejects(outbox.enqueue(tx, note, "after"), has("WAYBILL_TRANSACTION_MISUSED"));
      });
      // Some layers say so when they commit, others roll back without a word.
      await swallowed.catch(() => undefined);

      assert.deepEqual(await orderIds(), []);
      assert.deepEqual(await payloads(), []);
    },
  ],
  [
    "a refused payload leaves the transaction usable",
    async ({ layer, outbox, order, orderIds, payloads }) => {
      await layer.database.transaction(async (tx) => {
        await order(tx, 1);
        await assert.rejects(
          outbox.enqueue(tx, note, new Date(0) as never),
          has("WAYBILL_PAYLOAD_INVALID"),
        );
        await outbox.enqueue(tx, note, "kept");
      });

      assert.deepEqual(await orderIds(), [1]);
      assert.deepEqual(await payloads(), ["kept"]);
    },
  ],
  [
    "what is no transaction is refused, and nothing is enqueued",
    async ({ layer, outbox, payloads }) => {
      for (const [name, handle] of [...Object.entries(layer.impostors), ["nothing", undefined]]) {
        const tx = handle as never;
        await assert.rejects(outbox.enqueue(tx, note, 1), isNotInTransaction, String(name));
        await assert.rejects(outbox.enqueueMany(tx, note, [{ payload: 1 }]), isNotInTransaction);
      }

      assert.deepEqual(await payloads(), []);
    },
  ],
  [
    "what has left the transaction is refused inside it",
    async ({ layer, outbox, payloads }) => {
      const { leave } = layer;

      await layer.database.transaction(async (tx) => {
        if (leave !== undefined) {
          await assert.rejects(outbox.enqueue(leave(tx), note, 1), isNotInTransaction);
        }
        await outbox.enqueue(tx, note, 2);
      });

      assert.deepEqual(await payloads(), [2]);
    },
  ],
  [
    endedTakesNoJob,
    async ({ layer, outbox, payloads }) => {
      const kept: unknown[] = [];
      await layer.database.transaction(async (tx) => kept.push(tx));

      await assert.rejects(outbox.enqueue(kept[0] as never, note, 1));

      assert.deepEqual(await payloads(), []);
    },
  ],
  [
    autocommitIsAsked,
    async ({ layer, outbox, payloads }) => {
      const [handle] = Object.values(layer.impostors);

      await outbox.enqueue(handle as object, note, "alone", { autocommit: true });

      assert.deepEqual(await payloads(), ["alone"]);
    },
  ],
  [
    "a thousand jobs are enqueued by one statement, their ids in the order of the items",
    async ({ layer, outbox, rows }) => {
      const items = Array.from({ length: 1_000 }, (_, n) => ({ payload: { n, text: "it's 🚚" } }));

      const receipts = await layer.database.transaction((tx) =>
        outbox.enqueueMany(tx, note, items),
      );

      const stored = await rows(
        "select id::text as id, payload::json ->> 'n' as n from waybill.outbox order by seq",
      );
      assert.deepEqual(
        stored,
        receipts.map(({ jobId }, n) => ({ id: jobId, n: String(n) })),
      );
      assert.equal(new Set(receipts.map(({ jobId }) => jobId)).size, 1_000);
    },
  ],
  [
    "a taken idempotency key gives the first job's id back, also within one bulk",
    async ({ layer, outbox, payloads }) => {
      const { database } = layer;
      const options = { idempotencyKey: "it's the same" };

      const first = await database.transaction((tx) => outbox.enqueue(tx, note, "first", options));
      const second = await database.transaction((tx) =>
        outbox.enqueue(tx, note, "second", options),
      );
      const bulk = await database.transaction((tx) =>
        outbox.enqueueMany(tx, note, [
          { payload: "third", options },
          { payload: "fourth" },
          { payload: "fifth", options: { idempotencyKey: "another" } },
          { payload: "sixth", options: { idempotencyKey: "another" } },
        ]),
      );

      assert.deepEqual(second, { jobId: first.jobId, deduplicated: true });
      assert.deepEqual(bulk[0], { jobId: first.jobId, deduplicated: true });
      assert.deepEqual(bulk[3], { jobId: bulk[2]?.jobId, deduplicated: true });
      assert.deepEqual(
        bulk.map(({ deduplicated }) => deduplicated),
        [true, false, false, true],
      );
      assert.deepEqual(await payloads(), ["first", "fourth", "fifth"]);
    },
  ],
  [
    "a full queue is refused by its name, key and maximum",
    async ({ layer, outbox, payloads, rows }) => {
      const options = { concurrencyKey: 'it\'s "quoted", a \\ and $1 or ? or :name 🚚' };
      await rows(
        `insert into waybill.queue (name, declared) values ('notes', '{"maxWaiting": {"perKey": 1}}')`,
      );
      try {
        await layer.database.transaction((tx) => outbox.enqueue(tx, note, "first", options));

        await assert.rejects(
          layer.database.transaction((tx) => outbox.enqueue(tx, note, "second", options)),
          (error) =>
            error instanceof QueueFullError &&
            error.queue === "notes" &&
            error.key === options.concurrencyKey &&
            error.max === 1,
        );
      } finally {
        await rows("delete from waybill.queue");
        await rows("delete from waybill.waiting");
      }

      assert.deepEqual(await payloads(), ["first"]);
    },
  ],
  [
    "a job is found in its transaction and after it, and cancelled",
    async ({ layer, outbox, jobs }) => {
      const { jobId } = await layer.database.transaction(async (tx) => {
        const receipt = await outbox.enqueue(tx, note, { text: "it's 🚚" });
        const inside = await jobs.get(receipt.jobId, { tx });
        assert.equal(inside.state, "queued");
        return receipt;
      });

      const found = await jobs.get(jobId);
      const state = await jobs.cancel(jobId, { reason: 'it\'s "off"?' });

      assert.equal(found.state, "queued");
      assert.equal(state, "cancelled");
      assert.equal((await jobs.get(jobId)).state, "cancelled");
      await assert.rejects(jobs.cancel(jobId), has("WAYBILL_INVALID_TRANSITION"));
      assert.deepEqual(
        (await jobs.list({ queue: "notes" })).jobs.map(({ id }) => id),
        [jobId],
      );
    },
  ],
  [
    "transactions at the same time each keep their own jobs",
    async ({ layer, outbox, rows }) => {
      await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          layer.database
            .transaction(async (tx) => {
              await outbox.enqueue(tx, note, n);
              if (n % 2 === 1) throw new Error("no");
            })
            .catch((error: unknown) => assert.equal((error as Error).message, "no")),
        ),
      );

      assert.deepEqual(
        await rows("select payload::integer as n from waybill.outbox order by 1"),
        Array.from({ length: 10 }, (_, n) => ({ n: n * 2 })),
      );
    },
  ],
];
