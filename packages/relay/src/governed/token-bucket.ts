/** How fast a bucket fills, and how much it holds. */
export interface BucketSize {
  /** Tokens a millisecond. */
  readonly perMs: number;
  readonly burst: number;
}

/**
 * Part of a burst that is given out. The rest is for the way: what was dispatched apart may start
 * together, and the limit is promised for starts.
 */
const givenPart = 0.8;

/**
 * A token bucket by the monotonic clock. It begins empty: a relay that takes over knows nothing of what
 * its predecessor gave out, so that no burst is given twice.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #most: number;
  #tokens = 0;
  #filledAtMs: number;

  constructor({ perMs, burst }: BucketSize, nowMs: number) {
    this.#perMs = perMs;
    this.#most = Math.max(1, burst * givenPart);
    this.#filledAtMs = nowMs;
  }

  #fill(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#filledAtMs);
    this.#tokens = Math.min(this.#most, this.#tokens + passedMs * this.#perMs);
    this.#filledAtMs = nowMs;
  }

  /** True where one may start now. */
  has(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.#tokens >= 1;
  }

  take(): void {
    this.#tokens -= 1;
  }

  /** What was taken did not start after all. */
  giveBack(): void {
    this.#tokens = Math.min(this.#most, this.#tokens + 1);
  }

  /** When there is a token. */
  readyAtMs(nowMs: number): number {
    return this.has(nowMs) ? nowMs : nowMs + (1 - this.#tokens) / this.#perMs;
  }

  /** True where it holds all it can: then a fresh one gives no more. */
  isFull(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.#tokens >= this.#most;
  }
}
