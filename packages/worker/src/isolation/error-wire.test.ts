import {
  ConfigError,
  failureOf,
  JobCancelledError,
  JobTimeoutError,
  NonRetryableError,
  PayloadError,
  RetryAfterError,
  WaybillError,
} from "@waybill/core";
import { expect, test } from "vitest";
import { packError, unpackError } from "./error-wire.ts";

const sent = (thrown: unknown): unknown => unpackError(structuredClone(packError(thrown)));

const coded = (code: string | number): Error => Object.assign(new Error("refused"), { code });

class QuotaError extends Error {
  override readonly name = "QuotaError";
}

class Unreadable extends Error {
  override get message(): string {
    throw new Error("no");
  }
}

test.each([
  ["an error", new Error("plain")],
  ["an error of JavaScript", new RangeError("too far")],
  ["an error of a class of the application", new QuotaError("over 3")],
  ["a code", coded("ECONNREFUSED")],
  ["a SQLSTATE", coded("40001")],
  ["a code that is a number", coded(23)],
  ["a cause", new TypeError("fetch failed", { cause: coded("ECONNRESET") })],
  ["a cause that is a text", new Error("outer", { cause: "inner" })],
  ["an aggregate", new AggregateError([new Error("one"), new Error("two")])],
  ["a time-out of the platform", new DOMException("took too long", "TimeoutError")],
  ["a non-retryable error", new NonRetryableError("no", { failureClass: "permission" })],
  ["a non-retryable error without a class", new NonRetryableError("no")],
  ["a retry-after error", new RetryAfterError("slow down", 5_000)],
  ["a payload error", new PayloadError("a.job", [{ path: "to", message: "is missing" }])],
  ["a configuration error", new ConfigError("it", [{ path: "x", message: "is missing" }])],
  ["a time-out", new JobTimeoutError("too long", { cause: coded("57014") })],
  ["an object", { message: "no error", code: "ETIMEDOUT" }],
  ["a text", "only a text"],
  ["a number", 7],
  ["a bigint", 7n],
  ["null", null],
  ["undefined", undefined],
  ["an error that cannot be read", new Unreadable()],
])("what is thrown in a thread is stored as if it were thrown outside: %s", (_name, thrown) => {
  expect(failureOf(sent(thrown))).toEqual(failureOf(thrown));
});

test("a function or a proxy that throws can cross from a thread, as what it is", () => {
  const proxy = new Proxy(
    {},
    {
      get: () => {
        throw new Error("no");
      },
      getPrototypeOf: () => {
        throw new Error("no");
      },
    },
  );

  expect(failureOf(sent(() => 1)).message).toBe(
    "The handler threw a value that is no Error: function",
  );
  expect(failureOf(sent(proxy)).message).toBe(failureOf(proxy).message);
});

test("Waybill's errors are instances of their classes on both sides of a thread", () => {
  const cancelled = sent(new JobCancelledError("Cancelled by ann."));
  const refused = sent(new PayloadError("a.job", [{ path: "to", message: "is missing" }]));

  expect(cancelled).toBeInstanceOf(JobCancelledError);
  expect(WaybillError.is(cancelled)).toBe(true);
  expect(refused).toBeInstanceOf(PayloadError);
  expect(refused).toMatchObject({
    jobName: "a.job",
    issues: [{ path: "to", message: "is missing" }],
  });
  expect(sent(new RangeError("too far"))).toBeInstanceOf(RangeError);
  expect(WaybillError.is(sent(new Error("plain")))).toBe(false);
});

test("an error that is its own cause crosses from a thread", () => {
  const error = new Error("circle");
  error.cause = error;

  expect(sent(error)).toMatchObject({ message: "circle" });
});

test("a message of megabytes crosses from a thread cut", () => {
  const text = (sent(new Error("x".repeat(5_000_000))) as Error).message;

  expect(text.length).toBeLessThan(50_000);
});
