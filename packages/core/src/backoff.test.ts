import * as fc from "fast-check";
import { expect, test } from "vitest";
import { backoffDelayMs, defaultRetryPolicy, type ResolvedRetryPolicy } from "./backoff.ts";

const policies: fc.Arbitrary<ResolvedRetryPolicy> = fc
  .record({
    maxAttempts: fc.integer({ min: 1, max: 100 }),
    initialDelayMs: fc.integer({ min: 0, max: 86_400_000 }),
    extraMs: fc.integer({ min: 0, max: 2_505_600_000 }),
    factor: fc.double({ min: 1, max: 10, noNaN: true }),
    jitter: fc.constantFrom("full" as const, "equal" as const, "none" as const),
  })
  .map(({ extraMs, ...policy }) => ({ ...policy, maxDelayMs: policy.initialDelayMs + extraMs }));

const attempts = fc.integer({ min: 1, max: 2_000 });
const chances = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test("a delay is a whole number between 0 and the policy's maximum, at any attempt", () => {
  fc.assert(
    fc.property(policies, attempts, chances, (policy, attempt, chance) => {
      const delay = backoffDelayMs(policy, attempt, () => chance);

      expect(Number.isInteger(delay)).toBe(true);
      expect(delay).toBeGreaterThanOrEqual(0);
      expect(delay).toBeLessThanOrEqual(policy.maxDelayMs);
    }),
  );
});

test("without jitter the delay grows with each attempt until the maximum and stays there", () => {
  fc.assert(
    fc.property(policies, attempts, (policy, attempt) => {
      const plain = { ...policy, jitter: "none" as const };

      const delay = backoffDelayMs(plain, attempt, Math.random);
      const next = backoffDelayMs(plain, attempt + 1, Math.random);

      expect(next).toBeGreaterThanOrEqual(delay);
      if (delay === plain.maxDelayMs) expect(next).toBe(plain.maxDelayMs);
    }),
  );
});

test("equal jitter keeps to the upper half of the bound, full jitter to the whole of it", () => {
  fc.assert(
    fc.property(policies, attempts, chances, (policy, attempt, chance) => {
      const bound = backoffDelayMs({ ...policy, jitter: "none" }, attempt, () => chance);
      const equal = backoffDelayMs({ ...policy, jitter: "equal" }, attempt, () => chance);
      const full = backoffDelayMs({ ...policy, jitter: "full" }, attempt, () => chance);

      expect(equal).toBeGreaterThanOrEqual(Math.floor(bound / 2));
      expect(equal).toBeLessThanOrEqual(bound);
      expect(full).toBeLessThanOrEqual(bound);
    }),
  );
});

test("the default policy doubles from one second up to one hour", () => {
  const plain = { ...defaultRetryPolicy, jitter: "none" as const };

  const delays = [1, 2, 3, 4, 12, 13, 100].map((n) => backoffDelayMs(plain, n, Math.random));

  expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 2_048_000, 3_600_000, 3_600_000]);
});

test("a policy that starts at no delay never waits, however large the attempt", () => {
  const policy = { ...defaultRetryPolicy, initialDelayMs: 0, factor: 10 };

  expect(backoffDelayMs(policy, 10_000, () => 0.99)).toBe(0);
});
