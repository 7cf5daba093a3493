import { PayloadError, type Upcaster } from "@waybill/core";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Registration, Registry } from "./registry.ts";
import { upcast } from "./upcast.ts";

const append =
  (word: string): Upcaster =>
  (payload) => [...(payload as string[]), word];

function registrationOf(
  version: number,
  steps: Readonly<Record<number, Upcaster>> = {},
  name = "report",
): Registration<object> {
  return {
    name,
    version,
    payload: z.unknown(),
    checkpoint: undefined,
    result: undefined,
    upcasters: new Map(Object.entries(steps).map(([from, step]) => [Number(from), step])),
    retry: { maxAttempts: 1, initialDelayMs: 0, maxDelayMs: 0, factor: 1, jitter: "none" },
    timeoutMs: 0,
    hardTimeoutMs: 0,
    dependsOn: [],
    run: { kind: "plain", handler: () => Promise.resolve() },
  };
}

function registryOf(...registrations: readonly Registration<object>[]): Registry<object> {
  const registry = new Registry<object>();
  for (const each of registrations) registry.addJob("work", each.version ?? 1, each);
  return registry;
}

test("a handler of the very version comes before any upcasters", () => {
  const first = registrationOf(1);
  const third = registrationOf(3, { 1: append("1"), 2: append("2") });
  const registry = registryOf(third, first);

  expect(registry.find("work", "report", 1)).toBe(first);
  expect(registry.find("work", "report", 2)).toBe(third);
  expect(registry.find("work", "report", 3)).toBe(third);
});

test("of several handlers whose upcasters know a version the nearest one gets the job", () => {
  const fifth = registrationOf(5, {
    1: append("1"),
    2: append("2"),
    3: append("3"),
    4: append("4"),
  });
  const third = registrationOf(3, { 2: append("2") });
  const registry = registryOf(fifth, third);

  expect(registry.find("work", "report", 2)).toBe(third);
  expect(registry.find("work", "report", 1)).toBe(fifth);
  expect(registry.find("work", "report", 4)).toBe(fifth);
});

test("a version that no upcaster begins with, a later one and other names have no handler", () => {
  const registry = registryOf(registrationOf(3, { 2: append("2") }));

  expect(registry.find("work", "report", 1)).toBeUndefined();
  expect(registry.find("work", "report", 4)).toBeUndefined();
  for (const name of ["constructor", "__proto__", "toString", "reports"]) {
    expect(registry.find("work", name, 2)).toBeUndefined();
    expect(registry.knowsType(name)).toBe(false);
  }
});

test("the steps run one after the other, from the payload's version up to the handler's", () => {
  const registration = registrationOf(4, { 1: append("1"), 2: append("2"), 3: append("3") });

  expect(upcast(registration, 2, ["two"])).toEqual(["two", "2", "3"]);
  expect(upcast(registration, 4, ["four"])).toEqual(["four"]);
  expect(upcast({ ...registration, version: undefined }, 1, "event")).toBe("event");
});

test.each([
  ["throws", () => JSON.parse("nonsense") as unknown, /threw: .*JSON/],
  [
    "throws what is no error",
    () => {
      // oxlint-disable-next-line typescript/only-throw-error -- what applications may do
      throw "text";
    },
    /threw: a string/,
  ],
  ["gives a promise", () => Promise.resolve(1), /gave a promise/],
])("a step that %s is named, and the failure is one of validation", (_what, step, message) => {
  const registration = registrationOf(3, { 1: append("1"), 2: step });

  const run = (): unknown => upcast(registration, 1, []);

  expect(run).toThrow(PayloadError);
  expect(run).toThrow(message);
  expect(run).toThrow(/job "report".*upcaster from version 2 to 3/);
});
