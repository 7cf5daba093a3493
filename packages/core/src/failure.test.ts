import * as fc from "fast-check";
import { expect, test } from "vitest";
import { defaultRetryPolicy } from "./backoff.ts";
import {
  ConfigError,
  type FailureClass,
  failureClasses,
  JobTimeoutError,
  NonRetryableError,
  PayloadError,
  RetryAfterError,
} from "./errors.ts";
import {
  decideFailure,
  failureMessageLength,
  failureOf,
  failurePolicies,
  failureStackLength,
  retryAfterMaxMs,
  statedFailure,
} from "./failure.ts";

const thrower = (): never => {
  throw new Error("getter");
};

/** What throws on any touch. */
const spiteful = new Proxy(
  {},
  { get: thrower, has: thrower, getPrototypeOf: thrower, ownKeys: thrower },
);

class Spiteful extends Error {
  override get message(): string {
    return thrower();
  }
  override get stack(): string {
    return thrower();
  }
  get code(): string {
    return thrower();
  }
}

const cyclic = new Error("outer");
cyclic.cause = cyclic;

const thrown: readonly unknown[] = [
  undefined,
  null,
  "",
  "text",
  0,
  Number.NaN,
  1n,
  true,
  Symbol("x"),
  () => 1,
  {},
  [],
  Object.create(null),
  { message: 5, stack: {}, code: [], cause: null },
  { message: "m", cause: spiteful },
  { errors: spiteful },
  { errors: [spiteful, null, { message: "x" }] },
  { errors: new Proxy([1], { get: thrower }) },
  new Spiteful(),
  spiteful,
  cyclic,
  new Proxy(new NonRetryableError("x"), { get: thrower }),
  { [Symbol.for("waybill.error")]: true, code: "WAYBILL_NON_RETRYABLE", failureClass: "toString" },
  { [Symbol.for("waybill.error")]: true, code: "WAYBILL_RETRY_AFTER", delayMs: "soon" },
  new Proxy(
    Object.assign(() => 1, {}),
    { get: thrower },
  ),
];

/** By index: fast-check itself touches what it generates. */
const values = fc.oneof(
  fc.nat({ max: thrown.length - 1 }).map((n) => (): unknown => thrown[n]),
  fc.anything().map((value) => (): unknown => value),
);

test("S10: whatever a handler throws becomes a storable failure", () => {
  fc.assert(
    fc.property(values, (value) => {
      const failure = failureOf(value());

      expect(failureClasses).toContain(failure.failureClass);
      expect(failure.message).not.toBe("");
      expect(failure.message.length).toBeLessThanOrEqual(failureMessageLength);
      expect(failure.stack?.length ?? 0).toBeLessThanOrEqual(failureStackLength);
      expect(failure.fingerprint).toMatch(/^[0-9a-f]{16}$/);
      expect(`${failure.message}${failure.stack ?? ""}`).not.toContain("\u0000");
      expect(typeof failure.retryable).toBe("boolean");
    }),
    { numRuns: 300 },
  );
  for (const value of thrown) expect(() => failureOf(value)).not.toThrow();
});

test("S10: an error of 10 MB, with NUL, escape sequences and credentials, is stored cut and clean", () => {
  const secret = "postgres://app:s3cret@db/x";
  const error = new Error(`\u001b[31mcannot reach ${secret}\u0000${"x".repeat(10_000_000)}`);
  error.cause = new Error(`because of ${secret} ${"y".repeat(10_000_000)}`);

  const failure = failureOf(error);

  expect(failure.message).toMatch(/^cannot reach postgres:\/\/\*\*\*@db\/x x+…$/);
  expect(failure.message).toHaveLength(failureMessageLength);
  expect(failure.stack).toContain("Caused by: Error: because of postgres://***@db/x y");
  expect(failure.stack).not.toContain("s3cret");
});

const coded = (code: string): Error => Object.assign(new Error(code), { code });

test.each<[string, unknown, FailureClass]>([
  ["a refused connection", coded("ECONNREFUSED"), "transient"],
  ["a deadlock", coded("40P01"), "transient"],
  ["a statement timeout", coded("57014"), "timeout"],
  [
    "fetch's failure, by its cause",
    new TypeError("fetch failed", { cause: coded("ECONNRESET") }),
    "transient",
  ],
  ["an aborted wait", new DOMException("late", "TimeoutError"), "timeout"],
  ["a job's own timeout", new JobTimeoutError("late"), "timeout"],
  ["a Retry-After", new RetryAfterError("slow down", 5_000), "rate_limited"],
  ["a payload outside its schema", new PayloadError("x", []), "validation"],
  ["a non-retryable error", new NonRetryableError("no"), "validation"],
  ["a stated class", new NonRetryableError("no", { failureClass: "permission" }), "permission"],
  ["a configuration error", new ConfigError("x", []), "unknown"],
  ["a plain error", new Error("x"), "unknown"],
  ["a text", "x", "unknown"],
])("%s has its class", (_, error, expected) => {
  expect(failureOf(error).failureClass).toBe(expected);
});

test("a non-retryable error is never retried, whatever class it states", () => {
  const failure = failureOf(new NonRetryableError("no", { failureClass: "transient" }));

  expect(failure.retryable).toBe(false);
  expect(decideFailure(failure, 1, defaultRetryPolicy, () => 0)).toEqual({ next: "dead_letter" });
});

test("failures that differ only in numbers and ids share a fingerprint, others do not", () => {
  const of = (message: string): string => failureOf(new Error(message)).fingerprint;

  expect(of("order 42 of 0190b5a0-0000-7000-8000-000000000001 is gone")).toBe(
    of("order 43 of 0190b5a0-0000-7000-8000-000000000002 is gone"),
  );
  expect(of("order 42 is gone")).not.toBe(of("order 42 is here"));
  expect(failureOf(new TypeError("a")).fingerprint).not.toBe(failureOf(new Error("a")).fingerprint);
});

test("an AggregateError without a message tells what it is made of", () => {
  const error = new AggregateError([
    new Error("connect ::1 refused"),
    new Error("connect 127.0.0.1 refused"),
  ]);

  expect(failureOf(error).message).toBe("connect ::1 refused; connect 127.0.0.1 refused");
});

test("a retry comes only while attempts are left, and within the policy's delay", () => {
  const policy = { ...defaultRetryPolicy, maxAttempts: 3 };
  const failure = failureOf(new Error("x"));
  const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 }), chances, (attempt, chance) => {
      const decision = decideFailure(failure, attempt, policy, () => chance);

      expect(decision.next).toBe(attempt < 3 ? "retry" : "dead_letter");
      if (decision.next === "retry") {
        expect(decision.delayMs).toBeGreaterThanOrEqual(0);
        expect(decision.delayMs).toBeLessThanOrEqual(policy.initialDelayMs * 2 ** (attempt - 1));
      }
    }),
  );
});

test("a Retry-After is the earliest next attempt, up to seven days", () => {
  const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: retryAfterMaxMs * 2 }), chances, (delayMs, chance) => {
      const failure = failureOf(new RetryAfterError("x", delayMs));
      const decision = decideFailure(failure, 1, defaultRetryPolicy, () => chance);

      const asked = Math.min(delayMs, retryAfterMaxMs);
      expect(decision.next === "retry" && decision.delayMs >= asked).toBe(true);
      expect(decision.next === "retry" && decision.delayMs <= asked + 1_000).toBe(true);
    }),
  );
});

test("every class has a policy, and what Waybill states itself is dead-lettered at once", () => {
  expect(Object.keys(failurePolicies).sort()).toEqual([...failureClasses].sort());
  for (const stated of ["crashed", "expired", "no_handler", "undecodable"] as const) {
    expect(statedFailure(stated, "why")).toMatchObject({ failureClass: stated, retryable: false });
  }
});
