import { expect, test } from "vitest";
import { verdictOf } from "./verdict.ts";

test.each([
  ["running", "me", false, "run"],
  ["running", "other", false, "held"],
  ["running", null, false, "held"],
  ["queued", null, false, "stale"],
  ["retry_waiting", "me", false, "stale"],
  ["succeeded", "me", true, "duplicate"],
  ["failed", "me", true, "duplicate"],
  ["cancelled", null, true, "cancelled"],
  ["cancelled", null, false, "duplicate"],
] as const)(
  "a row that is %s of %s (ended just now: %s) means %s",
  (state, owner, ended, verdict) => {
    expect(verdictOf({ state, owner, ended }, "me")).toBe(verdict);
  },
);
