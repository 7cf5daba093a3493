import { expect, test } from "vitest";
import { changeOf, parseRate } from "./queue-flags.ts";

test("a rate is a number for a time", () => {
  expect(parseRate("200/s")).toEqual({ limit: 200 });
  expect(parseRate("10/5m")).toEqual({ limit: 10, perMs: 300_000 });
  expect(parseRate("1/100ms")).toEqual({ limit: 1, perMs: 100 });
  for (const text of ["200", "200/", "/s", "-1/s", "1.5/s", "5/week"]) {
    expect(parseRate(text)).toBeUndefined();
  }
});

test("flags for parts of a setting keep its other parts", () => {
  const present = {
    rate: { limit: 5, perMs: 60_000 },
    keys: { weight: 2, rate: { limit: 1 }, tiers: { gold: {} } },
    order: { parkAfterAttempts: 3 },
    maxWaiting: { jobs: 10, perKey: 2 },
  };

  expect(changeOf({ burst: 9 }, present)).toEqual({ rate: { limit: 5, perMs: 60_000, burst: 9 } });
  expect(changeOf({ keyConcurrency: 3, keyRate: "none" }, present)).toEqual({
    keys: { weight: 2, concurrency: 3, tiers: { gold: {} } },
  });
  expect(changeOf({ order: true }, present)).toEqual({ order: { parkAfterAttempts: 3 } });
  expect(changeOf({ whenFull: "drop_oldest" }, present)).toEqual({
    maxWaiting: { jobs: 10, perKey: 2, whenFull: "drop_oldest" },
  });
});

test("a new rate does not keep the burst of the former one", () => {
  expect(changeOf({ rate: { limit: 7 } }, { rate: { limit: 5, burst: 50 } })).toEqual({
    rate: { limit: 7 },
  });
});

test("none takes a setting away", () => {
  const flags = { concurrency: "none", rate: "none", aging: "none", maxWaiting: "none" } as const;

  expect(changeOf({ ...flags, order: false }, {})).toEqual({
    concurrency: null,
    rate: null,
    priority: null,
    maxWaiting: null,
    order: null,
  });
});

test("flags refine what --settings gives", () => {
  const settings = '{"keys":{"tiers":{"gold":{"weight":5}}},"types":null}';

  expect(changeOf({ settings, keyConcurrency: 2 }, { keys: { weight: 9 } })).toEqual({
    keys: { tiers: { gold: { weight: 5 } }, concurrency: 2 },
    types: null,
  });
});

test.each([
  [{}, /name what to set/],
  [{ burst: 5 }, /--burst: needs --rate/],
  [{ burst: 5, rate: "none" }, /--burst: does not go together/],
  [{ settings: "{" }, /--settings: expected JSON/],
  [{ settings: "[1]" }, /--settings: expected an object/],
] as const)("flags that say nothing clear are refused: %j", (flags, message) => {
  expect(() => changeOf(flags, {})).toThrow(message);
});
