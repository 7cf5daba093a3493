import * as fc from "fast-check";
import { expect, test } from "vitest";
import { fullestWindow } from "../../../../bench/flow/figures.ts";
import { TokenBucket } from "./token-bucket.ts";

interface Way {
  /** Milliseconds from the dispatch to the start, and from there to the news of it. */
  readonly startMs: number;
  readonly newsMs: number;
}

/** Times of the starts where all is dispatched that may be, by workers that get to run every `thawMs` only. */
function startsOf(
  bucket: { readonly perMs: number; readonly burst: number },
  ways: readonly Way[],
  thawMs: number,
  untilMs: number,
): number[] {
  const tokens = new TokenBucket(bucket, 0);
  const starts: number[] = [];
  let onTheWay: { readonly startMs: number; readonly newsMs: number }[] = [];
  for (let nowMs = 0; nowMs < untilMs; nowMs += 1) {
    for (const { startMs, newsMs } of onTheWay) {
      if (newsMs === nowMs) tokens.start(nowMs - startMs, nowMs);
    }
    onTheWay = onTheWay.filter(({ newsMs }) => newsMs > nowMs);
    while (tokens.has(nowMs)) {
      tokens.reserve();
      const { startMs = 0, newsMs = 0 } = ways[starts.length % ways.length] ?? {};
      const startsAtMs = Math.ceil((nowMs + startMs) / thawMs) * thawMs;
      starts.push(startsAtMs);
      onTheWay.push({ startMs: startsAtMs, newsMs: startsAtMs + Math.max(1, newsMs) });
    }
  }
  return starts.toSorted((a, b) => a - b);
}

const ms = (max: number) => fc.integer({ min: 0, max });

test("however long the ways take, in no stretch of time do more start than the bucket allows", () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ startMs: ms(400), newsMs: ms(100) }), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 500 }),
      fc.integer({ min: 26, max: 60 }),
      fc.integer({ min: 1, max: 600 }),
      (ways, perSecond, burst, thawMs) => {
        const perMs = perSecond / 1_000;
        const starts = startsOf({ perMs, burst }, ways, thawMs, 4_000);
        expect(fullestWindow(starts, perMs)).toBeLessThanOrEqual(burst + 1e-6);
      },
    ),
    { numRuns: 200 },
  );
});

test.each([
  ["a burst of a tenth of a second", { perMs: 0.2, burst: 20 }, 400],
  ["one start at a time", { perMs: 0.01, burst: 1 }, 20],
])("a rate is used in full while the way of a job takes 25 ms: %s", (_case, bucket, expected) => {
  const starts = startsOf(bucket, [{ startMs: 5, newsMs: 20 }], 1, 2_100);

  expect(starts.length).toBeGreaterThan(expected * 0.97);
});

test("what started before a takeover takes no token of the new bucket", () => {
  const tokens = new TokenBucket({ perMs: 0.01, burst: 1 }, 1_000);
  tokens.reserve();
  expect(tokens.has(1_150)).toBe(false);

  tokens.start(500, 1_150);

  expect(tokens.has(1_150)).toBe(true);
});

test("a bucket that is all reserved is looked at again soon, not when the clock would have filled it", () => {
  const tokens = new TokenBucket({ perMs: 0.001, burst: 1 }, 0);
  expect(tokens.has(2_000)).toBe(true);
  tokens.reserve();

  expect(tokens.readyAtMs(2_000)).toBeLessThan(2_100);
});
