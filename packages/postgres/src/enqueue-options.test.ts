import { defineTerminalEvent, HeadersError } from "@waybill/core";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { checkEnqueueOptions, checkHeaders, rowOfOptions } from "./enqueue-options.ts";

test("every option within its bounds is accepted", () => {
  const options = fc.record(
    {
      idempotencyKey: fc.stringMatching(/^[ -~]{1,255}$/),
      idempotencyTtlMs: fc.integer({ min: 1, max: 315_360_000_000 }),
      delayMs: fc.integer({ min: 0, max: 315_360_000_000 }),
      expiresAt: fc.date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true }),
      priority: fc.integer({ min: -100, max: 100 }),
      orderingKey: fc.stringMatching(/^[ -~]{1,255}$/),
      correlationId: fc.stringMatching(/^[ -~]{0,255}$/),
      headers: fc.dictionary(
        fc.stringMatching(/^h[a-z]{0,20}$/),
        fc.stringMatching(/^[ -~]{0,80}$/),
      ),
    },
    { requiredKeys: [] },
  );

  fc.assert(
    fc.property(options, (given) => {
      checkEnqueueOptions("job", given);
      expect(JSON.parse(JSON.stringify(rowOfOptions(given)))).toMatchObject(
        given.expiresAt === undefined ? {} : { expires_at: given.expiresAt.toISOString() },
      );
    }),
    { numRuns: 50 },
  );
});

test("a reserved header is refused in any case of its letters, and its value never shown", () => {
  const reserved = fc.constantFrom(
    "waybill-dispatch",
    "waybill-anything",
    "x-death",
    "x-",
    "cc",
    "bcc",
  );
  const mixed = reserved.chain((name) =>
    fc.array(fc.boolean(), { minLength: name.length, maxLength: name.length }).map((upper) =>
      name
        .split("")
        .map((c, n) => (upper[n] === true ? c.toUpperCase() : c))
        .join(""),
    ),
  );

  fc.assert(
    fc.property(mixed, (name) => {
      expect(() => checkHeaders("job", { [name]: "secret" })).toThrow(HeadersError);
      expect(() => checkHeaders("job", { [name]: "secret" })).not.toThrow(/secret/);
    }),
    { numRuns: 50 },
  );
});

test("the event of a job's end and the application's id join its headers, where there are any", () => {
  const headers = { tenant: "acme" };

  expect(rowOfOptions({ headers }, { appId: "shop", onTerminal: "ended" })["headers"]).toEqual({
    tenant: "acme",
    "app-id": "shop",
    "waybill-on-terminal": "ended",
  });
  expect(rowOfOptions({ headers })["headers"]).toEqual(headers);
  expect(rowOfOptions({})["headers"]).toBeUndefined();
});

test("an event of the end is accepted of a job in a queue, and no event is accepted of anything", () => {
  const onTerminal = defineTerminalEvent("ended");
  const route = { exchange: "e", routingKey: "k" };

  expect(() => checkEnqueueOptions("job", { onTerminal })).not.toThrow();
  expect(() => checkEnqueueOptions("job", { onTerminal: null, route })).not.toThrow();
  expect(() => checkEnqueueOptions("job", { onTerminal, route })).toThrow(/onTerminal.*with route/);
  expect(() => checkEnqueueOptions("job", { onTerminal }, "event")).toThrow(
    /onTerminal.*of an event/,
  );
  for (const wrong of ["ended", 5, {}, { name: "a b" }, []]) {
    expect(() => checkEnqueueOptions("job", { onTerminal: wrong as never })).toThrow(
      /onTerminal.*defineTerminalEvent/,
    );
  }
});

test.each([
  [{ debounceMs: 1 }, /debounceMs: needs an idempotencyKey/],
  [{ debounceMaxMs: 1 }, /debounceMaxMs: has no meaning without debounceMs/],
  [{ debounceMs: 0, idempotencyKey: "k" }, /debounceMs: must be an integer from 1/],
  [{ debounceMs: 2, debounceMaxMs: 1, idempotencyKey: "k" }, /debounceMaxMs: must be at least/],
  [
    { debounceMs: 1, idempotencyKey: "k", delayMs: 1, runAt: new Date() },
    /runAt: cannot be given together with debounceMs\n.*delayMs: cannot be given together with debounceMs/,
  ],
  [
    { debounceMs: 1, idempotencyKey: "k", idempotencyMode: "until_end" } as const,
    /idempotencyMode: must be "until_start" with debounceMs/,
  ],
  [
    { debounceMs: 1, idempotencyKey: "k", idempotencyTtlMs: 5 },
    /idempotencyTtlMs: has no meaning with mode "until_start"/,
  ],
  [
    { idempotencyKey: "k", idempotencyMode: "until_start", idempotencyTtlMs: 5 } as const,
    /idempotencyTtlMs: has no meaning with mode "until_start"/,
  ],
])("%j contradicts itself, and is refused by name", (options, message) => {
  expect(() => checkEnqueueOptions("job", options)).toThrow(message);
});

test("a debounced enqueue is accepted with its key, and travels with its times", () => {
  const options = {
    debounceMs: 5,
    debounceMaxMs: 5,
    idempotencyKey: "k",
    idempotencyMode: "until_start",
  } as const;

  expect(() => checkEnqueueOptions("job", options)).not.toThrow();
  expect(rowOfOptions(options)).toMatchObject({ debounce_ms: 5, debounce_max_ms: 5 });
});
