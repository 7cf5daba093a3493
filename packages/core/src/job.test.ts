import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { ConfigError, NameError } from "./errors.ts";
import { defineEvent } from "./event.ts";
import { defineJob, type PayloadInput, type PayloadOutput, type ResultOf } from "./job.ts";
import { validateValue } from "./standard-schema.ts";

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
  });
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
