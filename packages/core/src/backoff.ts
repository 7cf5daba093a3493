/** How long to wait before the next attempt, and how many attempts there are. */
export interface RetryPolicy {
  /**
   * Attempts in all, the first included; 1 to 100.
   * @default 10
   */
  readonly maxAttempts?: number | undefined;
  /**
   * Bound of the delay after the first failure, in milliseconds; 0 to 1 day.
   * @default 1000
   */
  readonly initialDelayMs?: number | undefined;
  /**
   * Bound that the delay never passes, in milliseconds; at most 30 days.
   * @default 3600000
   */
  readonly maxDelayMs?: number | undefined;
  /**
   * The bound's growth from one failure to the next; 1 to 10.
   * @default 2
   */
  readonly factor?: number | undefined;
  /**
   * `full`: anywhere between 0 and the bound; `equal`: upper half of it; `none`: the bound itself.
   * @default "full"
   */
  readonly jitter?: "full" | "equal" | "none" | undefined;
}

/** {@link RetryPolicy} with every default filled in. */
export type ResolvedRetryPolicy = {
  readonly [K in keyof RetryPolicy]-?: NonNullable<RetryPolicy[K]>;
};

/** Defaults of {@link RetryPolicy}: 10 attempts over about an hour and a half. */
export const defaultRetryPolicy: ResolvedRetryPolicy = {
  maxAttempts: 10,
  initialDelayMs: 1_000,
  maxDelayMs: 3_600_000,
  factor: 2,
  jitter: "full",
};

/**
 * Delay before the attempt after `attempt` (1 = the first), in whole milliseconds: capped
 * exponential backoff, min(maxDelayMs, initialDelayMs * factor^(attempt - 1)), with jitter
 * ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
 *
 * @param random a number in [0, 1), as `Math.random` gives
 */
export function backoffDelayMs(
  policy: ResolvedRetryPolicy,
  attempt: number,
  random: () => number,
): number {
  const grown = policy.initialDelayMs * policy.factor ** Math.max(0, attempt - 1);
  // A large attempt overflows to Infinity, which the cap takes back; times 0 that is NaN.
  const bound = Number.isNaN(grown) ? 0 : Math.min(policy.maxDelayMs, grown);
  switch (policy.jitter) {
    case "none":
      return Math.floor(bound);
    case "equal":
      return Math.floor(bound / 2 + random() * (bound / 2));
    case "full":
      return Math.floor(random() * bound);
  }
}
