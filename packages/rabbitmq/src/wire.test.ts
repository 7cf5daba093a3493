import { expect, test } from "vitest";

import { deathsOf, plainHeaders, plainValue, wholeNumber } from "./wire.ts";

test("a number is a number under any tag", () => {
  const values = [
    7,
    7n,
    { "!": "int64", value: 7 },
    { "!": "decimal", value: { places: 1, digits: 70 } },
    { "!": "timestamp", value: 7 },
    new Date(7_900),
  ];

  expect(values.map((value) => wholeNumber(plainValue(value)))).toEqual([7, 7, 7, 7, 7, 7]);
  expect(wholeNumber("7")).toBe(7);
  expect([wholeNumber("7x"), wholeNumber(7.5), wholeNumber(null)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("headers named like object members are headers", () => {
  const headers = plainHeaders(JSON.parse(`{"__proto__": {"a": 1}, "toString": "x"}`));

  expect(Object.keys(headers)).toEqual(["__proto__", "toString"]);
  expect(Object.getPrototypeOf(headers)).toBeNull();
});

test("depth and number of values are bounded", () => {
  let deep: unknown = "end";
  for (let level = 0; level < 10_000; level += 1) deep = [deep];
  const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`h${index}`, 1]));

  expect(JSON.stringify(plainValue(deep))).toBe(`${"[".repeat(8)}null${"]".repeat(8)}`);
  expect(Object.keys(plainHeaders(wide)).length).toBeLessThanOrEqual(1_000);
});

test("bytes are read as text and broken text becomes whole", () => {
  expect(plainValue(Buffer.from("é"))).toBe("é");
  expect(plainValue("\ud800")).toBe("\ufffd");
  expect(plainHeaders("garbage")).toEqual({});
});

test("malformed x-death entries are passed over", () => {
  const deaths = deathsOf({
    "x-death": ["garbage", { queue: 1 }, { queue: "q", reason: "rejected", count: "3", time: 5 }],
  });

  expect(deaths).toEqual([{ queue: "q", reason: "rejected", count: 3, timeSeconds: 5 }]);
  expect(deathsOf({ "x-death": "garbage" })).toEqual([]);
});
