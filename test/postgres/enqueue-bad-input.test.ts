import { ConfigError, defineJob, HeadersError, NameError, PayloadError } from "@waybill/core";
import type { EnqueueOptions } from "@waybill/postgres";
import { expect, test } from "vitest";
import { z } from "zod";
import { anyJob, startApplication } from "./application.ts";

function nested(levels: number): unknown {
  let value: unknown = [];
  for (let n = 1; n < levels; n += 1) value = [value];
  return value;
}

const cycle: Record<string, unknown> = { a: {} };
cycle["a"] = { back: cycle };

class Money {
  readonly cents = 1;
}

/** What is no payload, with the path that the error has to name. */
const badPayloads: readonly (readonly [name: string, payload: unknown, path: string])[] = [
  ["undefined", undefined, "payload"],
  ["a function", () => 1, "payload"],
  ["a symbol", Symbol("x"), "payload"],
  ["a BigInt", 1n, "payload"],
  ["NaN", Number.NaN, "payload"],
  ["Infinity", Number.POSITIVE_INFINITY, "payload"],
  ["minus Infinity", Number.NEGATIVE_INFINITY, "payload"],
  ["a Date", new Date(), "payload"],
  ["an invalid Date", new Date(Number.NaN), "payload"],
  ["a Map", new Map([["a", 1]]), "payload"],
  ["a Set", new Set([1]), "payload"],
  ["a Buffer", Buffer.from("x"), "payload"],
  ["a typed array", new Uint8Array(3), "payload"],
  ["an ArrayBuffer", new ArrayBuffer(3), "payload"],
  ["a Promise", Promise.resolve(1), "payload"],
  ["an instance of a class", new Money(), "payload"],
  ["a RegExp", /x/, "payload"],
  ["an Error", new Error("x"), "payload"],
  ["a URL", new URL("http://x"), "payload"],
  ["a NUL character", "a\u0000b", "payload"],
  ["a lone high surrogate", "\ud800", "payload"],
  ["a lone low surrogate", "x\udc00y", "payload"],
  ["a NUL in a key", { "a\u0000": 1 }, "payload"],
  ["a lone surrogate in a key", { "\udfff": 1 }, "payload"],
  ["a key __proto__", JSON.parse('{"__proto__":{"admin":true}}'), "payload"],
  ["a cycle", cycle, "a.back"],
  ["65 levels of arrays", nested(66), "0.0.0"],
  ["5,000 levels of arrays", nested(5_000), "0.0.0"],
  ["a hole in an array", [1, , 3], "1"], // oxlint-disable-line no-sparse-arrays -- the case itself
  ["undefined in an array", [1, undefined], "1"],
  ["a BigInt deep inside", { a: [{ b: 1n }] }, "a.0.b"],
  ["a Date deep inside", { a: { at: new Date() } }, "a.at"],
  ["a NUL deep inside", { a: ["\u0000"] }, "a.0"],
  ["NaN deep inside", { list: [1, { n: Number.NaN }] }, "list.1.n"],
  ["a function deep inside", { a: { b: () => 1 } }, "a.b"],
  ["a symbol deep inside", { a: Symbol("s") }, "a"],
  ["a toJSON method", { a: { toJSON: () => 1 } }, "a"],
  ["a Map deep inside", { m: new Map() }, "m"],
  ["one byte over the limit", "x".repeat(262_143), "payload"],
  ["a key of 300 kB", { ["k".repeat(300_000)]: 1 }, "payload"],
  ["multi-byte text over the limit", "é".repeat(131_072), "payload"],
];

test("A6: 40 kinds of bad payloads are refused with job and path, and the transaction stays usable", async () => {
  await using app = await startApplication();
  expect(badPayloads.length).toBeGreaterThanOrEqual(40);

  await app.database.transaction(async (tx) => {
    for (const [name, payload, path] of badPayloads) {
      const error: unknown = await app.outbox.enqueue(tx, anyJob, payload).then(
        () => undefined,
        (reason: unknown) => reason,
      );

      expect(error, name).toBeInstanceOf(PayloadError);
      expect((error as PayloadError).message, name).toContain(`job "test.any": ${path}`);
      expect(tx.getTransactionStatus?.(), name).toBe("T");
    }
    await app.outbox.enqueue(tx, anyJob, "x".repeat(262_142));
  });

  expect(await app.count("waybill.outbox")).toBe(1);
  expect(({} as Record<string, unknown>)["admin"]).toBeUndefined();
});

test("a payload that its schema refuses is named with its path and not with its value", async () => {
  await using app = await startApplication();
  const job = defineJob({
    name: "card.charge",
    payload: z.strictObject({ card: z.strictObject({ number: z.string().length(16) }) }),
  });

  const secret = "4111-secret";
  const enqueued = app.database.transaction(async (tx) => {
    const refused = app.outbox.enqueueMany(tx, job, [
      { payload: { card: { number: "4111111111111111" } } },
      { payload: { card: { number: secret } } },
    ]);
    await expect(refused).rejects.toThrow(/job "card.charge": items\.1\.card\.number: /);
    await expect(refused).rejects.not.toThrow(secret);
  });

  await enqueued;
  expect(await app.count("waybill.outbox")).toBe(0);
});

test("what is stored is the value that was given, not what its schema makes of it", async () => {
  await using app = await startApplication();
  const job = defineJob({
    name: "report.make",
    payload: z.object({
      at: z.iso.datetime().transform((text) => new Date(text)),
      n: z.int().default(1),
    }),
  });

  await app.database.transaction((tx) =>
    app.outbox.enqueue(tx, job, { at: "2026-01-02T03:04:05Z" }),
  );

  expect(await app.payloads()).toEqual(['{"at":"2026-01-02T03:04:05Z"}']);
});

test("a schema that answers later, or that is no zod schema, validates all the same", async () => {
  await using app = await startApplication();
  const job = defineJob({
    name: "async.check",
    payload: {
      "~standard": {
        version: 1,
        vendor: "test",
        types: undefined as { input: string; output: string } | undefined,
        validate: async (value: unknown) =>
          value === "good"
            ? { value: "good" }
            : { issues: [{ message: "is not good", path: [{ key: "a" }, 0] }] },
      },
    },
  });

  await app.database.transaction(async (tx) => {
    await app.outbox.enqueue(tx, job, "good");
    await expect(app.outbox.enqueue(tx, job, "bad")).rejects.toThrow("a.0: is not good");
  });

  expect(await app.payloads()).toEqual(['"good"']);
});

const wide = "x".repeat(256);
const badOptions: readonly (readonly [name: string, options: unknown, error: unknown])[] = [
  ["an unknown option", { queue: "x" }, ConfigError],
  ["a number as options", 7, ConfigError],
  ["runAt and delayMs", { runAt: new Date(), delayMs: 1 }, ConfigError],
  ["runAt as a text", { runAt: "tomorrow" }, ConfigError],
  ["an invalid runAt", { runAt: new Date(Number.NaN) }, ConfigError],
  ["a runAt after the year 9999", { runAt: new Date(Date.UTC(10_000, 1)) }, ConfigError],
  ["a negative delay", { delayMs: -1 }, ConfigError],
  ["half a millisecond", { delayMs: 0.5 }, ConfigError],
  ["an endless delay", { delayMs: Number.POSITIVE_INFINITY }, ConfigError],
  ["a priority of 101", { priority: 101 }, ConfigError],
  ["a priority as a text", { priority: "high" }, ConfigError],
  ["an unknown mode", { idempotencyMode: "forever" }, ConfigError],
  ["a time with until_end", { idempotencyMode: "until_end", idempotencyTtlMs: 5 }, ConfigError],
  ["a time of 0", { idempotencyTtlMs: 0 }, ConfigError],
  ["a wide correlation id", { correlationId: wide }, ConfigError],
  ["a correlation id with a NUL", { correlationId: "\u0000" }, ConfigError],
  ["half a route", { route: { exchange: "e" } }, ConfigError],
  ["a wide routing key", { route: { exchange: "", routingKey: wide } }, ConfigError],
  ["an autocommit of 1", { autocommit: 1 }, ConfigError],
  ["an empty idempotency key", { idempotencyKey: "" }, NameError],
  ["a wide idempotency key", { idempotencyKey: "é".repeat(128) }, NameError],
  ["a control character in a key", { orderingKey: "a\nb" }, NameError],
  ["a lone surrogate in a key", { orderingKey: "\ud800" }, NameError],
  ["a header of Waybill's", { headers: { "waybill-dispatch": "1" } }, HeadersError],
  ["a header of Waybill's in capitals", { headers: { "Waybill-Death": "1" } }, HeadersError],
  ["a header of the broker's", { headers: { "x-death": "garbage" } }, HeadersError],
  ["a header of the broker's in capitals", { headers: { "X-Delay": "1" } }, HeadersError],
  ["a header CC", { headers: { CC: "other" } }, HeadersError],
  ["a header BCC", { headers: { BCC: "other" } }, HeadersError],
  ["a header without a name", { headers: { "": "x" } }, HeadersError],
  ["a header with a wide name", { headers: { [wide]: "x" } }, HeadersError],
  ["a number as a header", { headers: { a: 1 } }, HeadersError],
  ["a NUL in a header", { headers: { a: "\u0000" } }, HeadersError],
  ["a lone surrogate in a header", { headers: { a: "\udfff" } }, HeadersError],
  ["headers as an array", { headers: ["a"] }, HeadersError],
  ["headers of 50 kB", { headers: { a: "x".repeat(50_000) } }, HeadersError],
  ["a header __proto__", { headers: JSON.parse('{"__proto__":"x"}') }, HeadersError],
];

test.each(badOptions)("%s is refused before any SQL", async (_name, options, error) => {
  const statements: string[] = [];
  const { createOutbox } = await import("@waybill/postgres");
  const outbox = createOutbox<object>({
    database: {
      transaction: (work) => work({}),
      executor: () => ({
        query: async (text) => {
          statements.push(text);
          return { rows: [] };
        },
      }),
    },
  });

  const enqueued = outbox.enqueue({}, anyJob, 1, options as EnqueueOptions);

  await expect(enqueued).rejects.toBeInstanceOf(error);
  expect(statements).toEqual([]);
});

test("A42: 200 hostile names reach no statement and leave no object behind", async () => {
  await using app = await startApplication();
  const parts = [
    "'",
    '"',
    ";",
    "--",
    "\\",
    "\u0000",
    "$$",
    "`",
    "%",
    "é",
    " ",
    "\n",
    "../",
    "{",
    "x".repeat(64),
  ];
  const names = Array.from({ length: 200 }, (_, n) => {
    const part = parts[n % parts.length] ?? "";
    return `${"q".repeat(n % 7)}${part}drop table orders${parts[(n * 7) % parts.length] ?? ""}${n}`;
  });
  const tables = await app.count("pg_class");

  for (const name of names) {
    expect(() => defineJob({ name, payload: z.unknown() }), name).toThrow(NameError);
    expect(() => defineJob({ name: "a", queue: name, payload: z.unknown() }), name).toThrow(
      NameError,
    );
    const { migrate, statementsFor } = await import("@waybill/postgres");
    expect(() => statementsFor(name), name).toThrow(NameError);
    await expect(migrate(app.pool, { schema: name })).rejects.toBeInstanceOf(NameError);
    // Keys and headers may hold nearly anything, as values.
    const options = { idempotencyKey: name, orderingKey: name, headers: { note: name } };
    await app.database.transaction(async (tx) => {
      await app.outbox.enqueue(tx, anyJob, name, options).catch((error: unknown) => {
        if (
          !(
            error instanceof NameError ||
            error instanceof PayloadError ||
            error instanceof HeadersError
          )
        )
          throw error;
      });
    });
  }

  expect(await app.count("pg_class")).toBe(tables);
  expect(await app.count("orders")).toBe(0);
  expect(await app.count("waybill.outbox")).toBeGreaterThan(100);
});
