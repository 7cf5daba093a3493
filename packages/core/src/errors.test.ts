import { expect, test } from "vitest";
import * as core from "./index.ts";
import { errorCodes, NonRetryableError, RetryAfterError, WaybillError } from "./index.ts";

const abstract = new Set(["WaybillError", "BrokerError"]);

/** Every exported class of the catalogue, with one instance of each. */
const catalogue = Object.entries(core)
  .filter(([name]) => name.endsWith("Error") && !abstract.has(name))
  .map(([name, value]) => ({
    name,
    // Fits every constructor: a text, then a list that is empty.
    instance: Reflect.construct(value as new (...args: unknown[]) => WaybillError, ["x", [], 1, 2]),
  }));

test("every code belongs to exactly one exported class, and every class has a code", () => {
  const codes = catalogue.map(({ instance }) => instance.code);

  expect([...codes].sort()).toEqual([...errorCodes].sort());
  expect(new Set(codes).size).toBe(codes.length);
});

test("every error says what it is: name, message, and that it is Waybill's", () => {
  for (const { name, instance } of catalogue) {
    expect(instance).toBeInstanceOf(WaybillError);
    expect(instance.name).toBe(name);
    expect(instance.message).not.toBe("");
    expect(WaybillError.is(instance)).toBe(true);
    expect(JSON.stringify(instance)).not.toContain("waybill.error");
  }
});

test("codes are listed in order and begin with WAYBILL_", () => {
  expect([...errorCodes].sort()).toEqual([...errorCodes]);
  for (const code of errorCodes) expect(code).toMatch(/^WAYBILL_[A-Z]+(_[A-Z]+)*$/);
});

test("an error of another copy of the package is recognised, anything else is not", () => {
  const other = Object.assign(new Error("x"), { [Symbol.for("waybill.error")]: true });

  expect(WaybillError.is(other)).toBe(true);
  for (const value of [new Error("x"), {}, null, undefined, "WAYBILL_CONFIG_INVALID", 1]) {
    expect(WaybillError.is(value)).toBe(false);
  }
});

test("the cause of an error is kept", () => {
  const cause = new Error("cause");

  expect(new NonRetryableError("x", { cause }).cause).toBe(cause);
  expect(new RetryAfterError("x", 5, { cause }).cause).toBe(cause);
});

test("a delay that is no number counts as none", () => {
  expect(new RetryAfterError("x", Number.NaN).delayMs).toBe(0);
  expect(new RetryAfterError("x", -5).delayMs).toBe(0);
  expect(new RetryAfterError("x", 1_500).delayMs).toBe(1_500);
});
