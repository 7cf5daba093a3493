import { expect, test } from "vitest";
import { anyJob, startApplication } from "./application.ts";

test.each([
  [{ debounce_ms: 0, idempotency_key: "k" }, "a debounce_ms that is not a number from 1 on"],
  [{ debounce_ms: "5", idempotency_key: "k" }, "a debounce_ms that is not a number from 1 on"],
  [{ debounce_ms: 5 }, "a debounce_ms without an idempotency_key"],
  [{ debounce_max_ms: 5, idempotency_key: "k" }, "a debounce_max_ms without debounce_ms"],
  [
    { debounce_ms: 5, debounce_max_ms: 4, idempotency_key: "k" },
    "a debounce_max_ms that is not a number from debounce_ms on",
  ],
  [
    { debounce_ms: 5, delay_ms: 1, idempotency_key: "k" },
    "a debounce_ms together with run_at or delay_ms",
  ],
  [
    { debounce_ms: 5, idempotency_key: "k", idempotency_mode: "until_end" },
    "a debounce_ms with an idempotency_mode other than until_start",
  ],
  [{ concurrency_key: "" }, "a concurrency_key of other than 1 to 255 bytes"],
  [
    { headers: { "waybill-concurrency-key": "é".repeat(128) } },
    "a concurrency_key of other than 1 to 255 bytes",
  ],
])("waybill.enqueue refuses %j by name", async (fields, fault) => {
  await using app = await startApplication();
  const job = { type: "t", queue: "q", payload: 1, ...fields };

  await expect(
    app.pool.query("select * from waybill.enqueue($1::jsonb)", [JSON.stringify([job])]),
  ).rejects.toThrow(`waybill.enqueue: job 0 has ${fault}`);
});

test("a concurrency key is a header of the job, and as a field it wins over one", async () => {
  await using app = await startApplication();
  const jobs = [
    { concurrency_key: "field" },
    { headers: { "waybill-concurrency-key": "header", a: "1" } },
    { concurrency_key: "field", headers: { "waybill-concurrency-key": "header", a: "1" } },
  ].map((fields) => ({ type: "t", queue: "q", payload: 1, ...fields }));

  await app.pool.query("select * from waybill.enqueue($1::jsonb)", [JSON.stringify(jobs)]);
  await app.database.transaction((tx) =>
    app.outbox.enqueue(tx, anyJob, 1, { concurrencyKey: "option" }),
  );

  const rows = await app.db.rows<{ headers: unknown }>(
    "select headers from waybill.outbox order by seq",
  );
  expect(rows.map(({ headers }) => headers)).toEqual([
    { "waybill-concurrency-key": "field" },
    { "waybill-concurrency-key": "header", a: "1" },
    { "waybill-concurrency-key": "field", a: "1" },
    { "waybill-concurrency-key": "option" },
  ]);
  const shown = await app.db.rows(
    "select concurrency_key, headers from waybill.job order by enqueued_at, headers is null desc",
  );
  expect(shown).toContainEqual({ concurrency_key: "field", headers: { a: "1" } });
  expect(shown).toContainEqual({ concurrency_key: "option", headers: null });
});
