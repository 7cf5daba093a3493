import * as fc from "fast-check";
import { expect, test } from "vitest";
import { anyJob, startApplication } from "./application.ts";

/** Values at the edges of JSON, in the manner of JSONTestSuite. */
const edges: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -0,
  1.5e-7,
  1e21,
  5e-324,
  1.7976931348623157e308,
  9_007_199_254_740_992,
  "",
  " ",
  "null",
  '"',
  "\\",
  "\\u0000",
  "/",
  "\b\f\n\r\t",
  "\u007f\u0080\u009f",
  "\u2028\u2029",
  "\ufeff",
  "\uffff\ufffe",
  "😀𝒳",
  "a?b $1 $2 ?? \\? :name @p %s ${x}",
  "'; drop table orders; --",
  "{}",
  "[]",
  "日本語 العربية עברית",
  "e\u0301",
  [],
  {},
  [[], [[]], {}],
  { "": { "": "" } },
  { a: null, b: [null] },
  { constructor: 1, toString: 2, hasOwnProperty: 3 },
  { "a.b": 1, 'a"b': 2, "a\\b": 3, "\n": 4 },
  { z: 1, a: 2, "10": 3, "9": 4 },
  Array.from({ length: 1_000 }, (_, n) => n),
  Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`key ${n}`, n])),
];

test("every value at the edges of JSON is stored as exactly the text that JSON.stringify makes", async () => {
  await using app = await startApplication();

  await app.database.transaction((tx) =>
    app.outbox.enqueueMany(
      tx,
      anyJob,
      edges.map((payload) => ({ payload })),
    ),
  );

  expect(await app.payloads()).toEqual(edges.map((value) => JSON.stringify(value)));
});

test("any JSON value, header and key comes back byte for byte", async () => {
  await using app = await startApplication();
  const text = fc
    .string({ unit: "grapheme", maxLength: 40 })
    .filter((value) => !value.includes("\u0000") && value.isWellFormed());
  const json = fc.jsonValue({ stringUnit: "grapheme", maxDepth: 4 }).filter((value) => {
    const encoded = JSON.stringify(value);
    return !encoded.includes("\\u0000") && !encoded.includes("__proto__") && encoded.isWellFormed();
  });

  await fc.assert(
    fc.asyncProperty(json, text, async (payload, header) => {
      const { jobId } = await app.outbox.enqueue(app.pool, anyJob, payload, {
        autocommit: true,
        headers: { note: header },
      });

      const job = await app.jobs.get(jobId);
      expect(job.payload).toBe(JSON.stringify(payload));
      expect(job.headers).toEqual({ note: header });
    }),
    { numRuns: 100 },
  );
});

test("the SQL function takes a payload as JSON or as exact text, from any language", async () => {
  await using app = await startApplication();
  const jobs = [
    { type: "t", queue: "tests", payload: { b: 1, a: [2] } },
    { type: "t", queue: "tests", body: '{ "b":1,\n "a":[2.0] }' },
    { type: "t", queue: "tests", payload: null },
    { type: "t", queue: "tests" },
  ];

  const { rows } = await app.pool.query<{ id: string; deduplicated: string }>(
    "select id, deduplicated from waybill.enqueue($1)",
    [JSON.stringify(jobs)],
  );

  expect(rows.map((row) => row.deduplicated)).toEqual(["false", "false", "false", "false"]);
  expect(rows[0]?.id).toMatch(
    /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
  expect(await app.payloads()).toEqual([
    '{"a": [2], "b": 1}',
    '{ "b":1,\n "a":[2.0] }',
    "null",
    "null",
  ]);
});

test.each([
  ["no array", '{"type":"t"}', /needs a JSON array/],
  ["a job that is no object", "[1]", /job 0 is not an object/],
  ["no type", '[{"queue":"q"}]', /job 0 needs a type/],
  ["no queue", '[{"type":"t","queue":"q"},{"type":"t"}]', /job 1 needs a queue/],
  ["no queue with a delay", '[{"type":"t","delay_ms":1000}]', /job 0 needs a queue/],
  ["a bad queue", '[{"type":"t","queue":"Q;"}]', /queue name/],
  ["an unknown kind", '[{"type":"t","kind":"dead_letter"}]', /kind/],
  ["an event with a queue", '[{"type":"t","kind":"event","queue":"q"}]', /only kind job/],
  ["half a route", '[{"type":"t","kind":"route","exchange":"e"}]', /exchange and routing_key/],
  ["two bodies", '[{"type":"t","queue":"q","body":"1","payload":1}]', /both payload and body/],
  ["a body that is no text", '[{"type":"t","queue":"q","body":1}]', /body that is not a text/],
  [
    "a number as a header",
    '[{"type":"t","queue":"q","headers":{"a":1}}]',
    /header that is not a text/,
  ],
  [
    "an unknown mode",
    '[{"type":"t","queue":"q","idempotency_key":"k","idempotency_mode":"x"}]',
    /mode/,
  ],
  ["an empty key", '[{"type":"t","queue":"q","idempotency_key":""}]', /1 to 255 bytes/],
])("the SQL function refuses %s with what is wrong", async (_name, jobs, message) => {
  await using app = await startApplication();

  const enqueued = app.pool.query("select id from waybill.enqueue($1)", [jobs]);

  await expect(enqueued).rejects.toThrow(message);
});
