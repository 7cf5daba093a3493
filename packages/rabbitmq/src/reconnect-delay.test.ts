import { expect, test } from "vitest";

import { reconnectDelayMs } from "./reconnect-delay.ts";

const situation = { failures: 0, downMs: 0, needsOperator: false, random: () => 0.999_999 };

test("delays have full jitter under a doubling bound", () => {
  expect(reconnectDelayMs(situation)).toBe(249);
  expect(reconnectDelayMs({ ...situation, failures: 3 })).toBe(1_999);
  expect(reconnectDelayMs({ ...situation, failures: 3, random: () => 0 })).toBe(0);
});

test("the bound is 5 s in the first minute and 30 s later", () => {
  expect(reconnectDelayMs({ ...situation, failures: 99 })).toBe(4_999);
  expect(reconnectDelayMs({ ...situation, failures: 99, downMs: 60_000 })).toBe(29_999);
});

test("a login that is refused is never tried in a hurry", () => {
  expect(reconnectDelayMs({ ...situation, needsOperator: true, random: () => 0 })).toBe(2_500);
});
