import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { ConfigError, NameError } from "./errors.ts";
import { defineEvent } from "./event.ts";
import { defineJob, type PayloadInput, type PayloadOutput, type ResultOf } from "./job.ts";
import { validateValue } from "./standard-schema.ts";
import { defineTerminalEvent } from "./terminal-event.ts";

test("a definition has every default filled in and cannot be changed", () => {
  const job = defineJob({ name: "email.welcome", payload: z.object({ to: z.string() }) });

  expect(job.options).toEqual({
    queue: "default",
    version: 1,
    priority: 0,
    retry: {
      maxAttempts: 10,
      initialDelayMs: 1_000,
      maxDelayMs: 3_600_000,
      factor: 2,
      jitter: "full",
    },
    timeoutMs: 0,
    hardTimeoutMs: 0,
  });
  expect(job).toMatchObject({ upcasters: new Map(), onTerminal: undefined });
  expect(Object.isFrozen(job) && Object.isFrozen(job.options)).toBe(true);
});

test("a definition's types follow from its schemas", () => {
  const job = defineJob({
    name: "email.welcome",
    payload: z.object({ to: z.string(), at: z.coerce.date() }),
    result: z.object({ sent: z.number() }),
  });

  expectTypeOf<PayloadOutput<typeof job>>().toEqualTypeOf<{ to: string; at: Date }>();
  expectTypeOf<PayloadInput<typeof job>["to"]>().toEqualTypeOf<string>();
  expectTypeOf<ResultOf<typeof job>>().toEqualTypeOf<{ sent: number }>();
  expectTypeOf(job.name).toEqualTypeOf<"email.welcome">();
});

test("wrong options of a definition are reported together, with the job's name", () => {
  const options = {
    queue: "emails",
    priority: 101,
    retry: { maxAttempts: 0, initialDelayMs: 10, maxDelayMs: 5 },
    timeoutMs: -1,
    timeout: 5,
  };

  expect(() => defineJob({ name: "email.welcome", payload: z.null(), ...options })).toThrow(
    expect.objectContaining({
      code: "WAYBILL_CONFIG_INVALID",
      message: expect.stringMatching(
        /defineJob\("email\.welcome"\)[^]*priority[^]*maxAttempts[^]*timeoutMs[^]*"timeout"/,
      ) as string,
    }),
  );
  expect(() =>
    defineJob({ name: "a", payload: z.null(), retry: { initialDelayMs: 10, maxDelayMs: 5 } }),
  ).toThrow(ConfigError);
});

const step = (payload: unknown): unknown => payload;

test("a definition carries its upcasters, its hard timeout and the event of its end", () => {
  const job = defineJob({
    name: "report",
    version: 3,
    payload: z.null(),
    upcasters: { 1: step, 2: step },
    onTerminal: defineTerminalEvent("report.ended"),
    timeoutMs: 1_000,
    hardTimeoutMs: 1_001,
  });

  expect(job.upcasters).toEqual(
    new Map([
      [1, step],
      [2, step],
    ]),
  );
  expect(job.onTerminal).toBe("report.ended");
  expect(job.options).toMatchObject({ version: 3, timeoutMs: 1_000, hardTimeoutMs: 1_001 });
  expect(Object.keys(job.options)).not.toContain("upcasters");
  expect(
    defineJob({ name: "a", version: 3, payload: z.null(), upcasters: { 2: step } }).upcasters.size,
  ).toBe(1);
});

test.each([
  [{ 1: step, 3: step }, 5, /the step from version 2 to 3 is missing; .* from version 4 to 5 is/],
  [{ 1: step }, 1, /the step from version 1 does not lead to version 1/],
  [{ 0: step, 1: step }, 2, /the step from version 0 does not lead to version 2/],
  [{ 1.5: step, 1: step }, 2, /the step from version 1\.5 does not lead to version 2/],
  [{ one: step }, 2, /the step from version one does/],
  [{ 1: "text" }, 2, /an object of functions/],
  [[step, step], 2, /an object of functions/],
])("steps that do not lead to the version are named: case %#", (upcasters, version, message) => {
  expect(() =>
    defineJob({ name: "a", version, payload: z.null(), upcasters: upcasters as never }),
  ).toThrow(
    expect.objectContaining({
      code: "WAYBILL_CONFIG_INVALID",
      message: expect.stringMatching(message) as string,
    }),
  );
});

test("a hard timeout must leave the timeout its turn", () => {
  const define = (timeoutMs: number | undefined, hardTimeoutMs: number) => () =>
    defineJob({ name: "a", payload: z.null(), timeoutMs, hardTimeoutMs });

  expect(define(5, 5)).toThrow(/hardTimeoutMs.*larger than timeoutMs/);
  expect(define(undefined, 5)).toThrow(/hardTimeoutMs.*no meaning without timeoutMs/);
  expect(define(5, 0)).not.toThrow();
});

test("problems of single options and of their fit are reported together", () => {
  expect(() =>
    defineJob({
      name: "a",
      version: 4,
      payload: z.null(),
      priority: 101,
      timeoutMs: 10,
      hardTimeoutMs: 5,
      upcasters: { 2: step },
      onTerminal: { name: "constructor" } as never,
      limit: 5,
    } as never),
  ).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(
        /^(?=[^]*priority)(?=[^]*hardTimeoutMs)(?=[^]*upcasters[^]*3 to 4)(?=[^]*onTerminal[^]*defineTerminalEvent)(?=[^]*"limit")/,
      ) as string,
    }),
  );
});

test("jobs and events refuse names outside the rules", () => {
  for (const name of ["", "constructor", "a b", "__proto__"]) {
    expect(() => defineJob({ name, payload: z.null() })).toThrow(NameError);
    expect(() => defineEvent({ name, payload: z.null() })).toThrow(NameError);
  }
  expect(() => defineJob({ name: "a", queue: "A", payload: z.null() })).toThrow(NameError);
});

test("any Standard Schema describes a payload; its issues carry dotted paths and no values", async () => {
  const schema = z.object({ items: z.array(z.object({ price: z.number() })) });

  const wrong = await validateValue(schema, { items: [{ price: "s3cret" }] });
  const right = await validateValue(schema, { items: [{ price: 1 }] });

  expect(wrong.issues).toEqual([{ path: "items.0.price", message: expect.any(String) as string }]);
  expect(JSON.stringify(wrong)).not.toContain("s3cret");
  expect(right).toEqual({ value: { items: [{ price: 1 }] } });
});

test("a schema that answers later is waited for", async () => {
  const later = {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      validate: async (value: unknown) => ({ value }),
    },
  };

  expect(await validateValue(later, 5)).toEqual({ value: 5 });
});
