/** How fast a bucket fills, and how much it holds. */
export interface BucketSize {
  /** Tokens a millisecond. */
  readonly perMs: number;
  readonly burst: number;
}

/** Milliseconds from a dispatch to the news of its start, with which a rate can still be used in full. */
const wayMs = 50;
/** Milliseconds between two looks at what has started. */
export const startsMs = 20;

/**
 * A token bucket by the monotonic clock, for starts that become known later. A dispatch reserves a token,
 * and its start takes it, as of the moment of the start: however long the way takes, and however many of
 * them start together, each start has a token. It begins empty: a relay that takes over knows nothing of
 * what its predecessor gave out, so that no burst is given twice.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #most: number;
  readonly #madeAtMs: number;
  #tokens = 0;
  #reserved = 0;
  #filledAtMs: number;
  #fullSinceMs = Infinity;

  constructor({ perMs, burst }: BucketSize, nowMs: number) {
    this.#perMs = perMs;
    this.#most = Math.max(burst, 1 + perMs * wayMs);
    this.#madeAtMs = nowMs;
    this.#filledAtMs = nowMs;
  }

  #fill(nowMs: number): void {
    const missing = this.#most - this.#tokens;
    const tokens = Math.max(0, nowMs - this.#filledAtMs) * this.#perMs;
    if (missing > 0 && tokens >= missing) {
      this.#fullSinceMs = this.#filledAtMs + missing / this.#perMs;
    }
    this.#tokens += Math.min(missing, tokens);
    this.#filledAtMs = nowMs;
  }

  /** True where one more may be dispatched now. */
  has(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.#tokens - this.#reserved >= 1;
  }

  /** Something is dispatched. */
  reserve(): void {
    this.#reserved += 1;
  }

  /** What was dispatched did not go after all. */
  giveBack(): void {
    this.#reserved -= 1;
  }

  /** What was dispatched started so many milliseconds ago. */
  start(agoMs: number, nowMs: number): void {
    this.#reserved -= 1;
    this.#fill(nowMs);
    const startedAtMs = nowMs - agoMs;
    // Of before a takeover: its token was its predecessor's.
    if (startedAtMs < this.#madeAtMs) return;
    // While it was full since, it would have filled up again; what one start had of that is gone for the next.
    const fullSinceMs = Math.max(startedAtMs, this.#fullSinceMs);
    const refilled =
      this.#tokens < this.#most ? 0 : Math.min(1, (nowMs - fullSinceMs) * this.#perMs);
    this.#fullSinceMs = fullSinceMs + refilled / this.#perMs;
    this.#tokens -= 1 - refilled;
  }

  /** When to look whether there is a token. */
  readyAtMs(nowMs: number): number {
    if (this.has(nowMs)) return nowMs;
    if (this.#most - this.#reserved < 1) return nowMs + startsMs;
    return nowMs + (1 + this.#reserved - this.#tokens) / this.#perMs;
  }

  /** True where it holds all it can: then a fresh one gives no more. */
  isFull(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.#tokens >= this.#most && this.#reserved === 0;
  }
}
