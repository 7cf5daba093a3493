import { expect, test } from "vitest";
import { formatDuration, parseDuration } from "./duration.ts";

test("a time has a number and a unit", () => {
  expect(["500ms", "30s", "5m", "2h", "7d", " 1s "].map(parseDuration)).toEqual([
    500, 30_000, 300_000, 7_200_000, 604_800_000, 1_000,
  ]);
  expect(["30", "s", "1.5h", "-1s", "1 s", "1w", ""].map(parseDuration)).toEqual(
    Array(7).fill(undefined),
  );
});

test("a time is shown in the unit that people would choose", () => {
  expect([0, 350, 12_000, 300_000, 10_800_000, 345_600_000].map(formatDuration)).toEqual([
    "0 ms",
    "350 ms",
    "12 s",
    "5 min",
    "3 h",
    "4 d",
  ]);
});
