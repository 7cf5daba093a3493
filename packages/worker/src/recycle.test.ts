import { expect, test } from "vitest";
import { ageLimitOf, recycleReason } from "./recycle.ts";

const fresh = { finishedJobs: 0, ageMs: 0, rssBytes: 100_000_000, leftBehind: 0 };

test("a worker ends by itself for nothing that was not asked for", () => {
  const old = { finishedJobs: 1e9, ageMs: 1e12, rssBytes: 1e12, leftBehind: 1_000 };

  expect(
    recycleReason(
      {},
      ageLimitOf({}, () => 0.5),
      old,
    ),
  ).toBeUndefined();
});

test.each([
  ["jobs", { maxJobs: 10 }, { finishedJobs: 10 }, /10 jobs/],
  ["age", { maxAgeMs: 60_000 }, { ageMs: 60_000 }, /60 s old/],
  ["memory", { maxRssBytes: 99_000_000 }, {}, /94 MiB|95 MiB/],
  ["handlers left behind", { maxLeftBehind: 2 }, { leftBehind: 2 }, /2 handlers/],
])("a worker that has come to its limit of %s ends by itself", (_what, options, wear, reason) => {
  const limit = ageLimitOf(options, () => 0);

  expect(recycleReason(options, limit, { ...fresh, ...wear })).toMatch(reason);
  expect(recycleReason(options, limit, { ...fresh, rssBytes: 1 })).toBeUndefined();
});

test("workers of one fleet do not end at one time", () => {
  const limits = [0, 0.5, 0.99].map((chance) => ageLimitOf({ maxAgeMs: 100_000 }, () => chance));

  expect(limits).toEqual([100_000, 95_000, 90_100]);
});
