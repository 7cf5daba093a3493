/** What is counted for a type and for a key of a queue. */

import { type BreakerView, letsAtMs, noteEnd } from "./breaker-views.ts";
import type { Lane } from "./lane.ts";
import type { Limits, ResolvedKeyLimits, ResolvedTypeLimits } from "./limits.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Counts of a type, a key or a queue against its limits. */
export class Party<L extends Limits> {
  limits: L;
  bucket: TokenBucket | undefined;
  /** Slots that count: those of a head that waits for its retry do not. */
  running = 0;

  constructor(limits: L, nowMs: number) {
    this.limits = limits;
    this.bucket = limits.bucket && new TokenBucket(limits.bucket, nowMs);
  }

  /** Takes new limits; a bucket whose size is the same keeps its tokens. */
  apply(limits: L, nowMs: number): void {
    const { bucket: old } = this.limits;
    const { bucket } = limits;
    if (bucket?.perMs !== old?.perMs || bucket?.burst !== old?.burst) {
      this.bucket = bucket && new TokenBucket(bucket, nowMs);
    }
    this.limits = limits;
  }

  isOpen(nowMs: number): boolean {
    const { closedUntilMs, concurrency } = this.limits;
    return (
      nowMs >= closedUntilMs &&
      this.running < concurrency &&
      (this.bucket === undefined || this.bucket.has(nowMs))
    );
  }

  /** When it opens by the clock alone; undefined where something else has to happen. */
  opensAtMs(nowMs: number): number | undefined {
    const { closedUntilMs, concurrency } = this.limits;
    if (closedUntilMs === Infinity || this.running >= concurrency) return undefined;
    return Math.max(closedUntilMs, this.bucket?.readyAtMs(nowMs) ?? 0);
  }

  start(): void {
    this.running += 1;
  }

  stop(_nowMs: number): void {
    this.running -= 1;
  }
}

/** A concurrency key with work. */
export class KeyParty extends Party<ResolvedKeyLimits> {
  readonly name: string;
  /**
   * Its share so far, as stride scheduling has it: one more over its weight with every turn. The key with
   * the lowest goes next.
   */
  pass = 0;
  /** Lanes that wait until the key is open. */
  shut: Lane[] = [];
  /** True while a time is noted at which it may open. */
  wakes = false;

  constructor(name: string, limits: ResolvedKeyLimits, nowMs: number) {
    super(limits, nowMs);
    this.name = name;
  }
}

/** A job type. */
export class TypeParty extends Party<ResolvedTypeLimits> {
  breakers: readonly BreakerView[] = [];

  override isOpen(nowMs: number): boolean {
    const lets = (breaker: BreakerView): boolean => nowMs >= (letsAtMs(breaker) ?? Infinity);
    return this.breakers.every(lets) && super.isOpen(nowMs);
  }

  override opensAtMs(nowMs: number): number | undefined {
    let at = super.opensAtMs(nowMs);
    for (const breaker of this.breakers) {
      const breakerAt = letsAtMs(breaker);
      at = at === undefined || breakerAt === undefined ? undefined : Math.max(at, breakerAt);
    }
    return at;
  }

  override start(): void {
    super.start();
    for (const breaker of this.breakers) breaker.running += 1;
  }

  override stop(nowMs: number): void {
    super.stop(nowMs);
    for (const breaker of this.breakers) noteEnd(breaker, nowMs);
  }
}
