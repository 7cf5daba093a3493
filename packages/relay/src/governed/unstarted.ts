import type { DispatchRef } from "@waybill/postgres";
import type { TokenBucket } from "./token-bucket.ts";

/** Milliseconds after which a dispatch counts as started: its worker put the message aside, or it was lost. */
const startMaxMs = 10_000;

interface Reservation {
  readonly ref: DispatchRef;
  readonly buckets: readonly TokenBucket[];
  readonly atMs: number;
}

/** The jobs of a queue that reserve a token, until it is known that they have started. */
export class Unstarted {
  readonly #jobs = new Map<string, Reservation>();

  get isEmpty(): boolean {
    return this.#jobs.size === 0;
  }

  /** A job is dispatched that counts for these buckets. */
  add(
    { id, queue, dispatch }: DispatchRef,
    buckets: readonly (TokenBucket | undefined)[],
    nowMs: number,
  ): void {
    this.giveBack(id);
    const own = buckets.filter((bucket) => bucket !== undefined);
    if (own.length === 0) return;
    for (const bucket of own) bucket.reserve();
    this.#jobs.set(id, { ref: { id, queue, dispatch }, buckets: own, atMs: nowMs });
  }

  /** It did not go after all. */
  giveBack(id: string): void {
    for (const bucket of this.#jobs.get(id)?.buckets ?? []) bucket.giveBack();
    this.#jobs.delete(id);
  }

  /** It started so many milliseconds ago; nothing if that is known. */
  started(id: string, agoMs: number, nowMs: number): void {
    for (const bucket of this.#jobs.get(id)?.buckets ?? []) bucket.start(agoMs, nowMs);
    this.#jobs.delete(id);
  }

  /** Those of which the start may have become known; one that takes too long counts as started. */
  refs(nowMs: number): readonly DispatchRef[] {
    for (const [id, { atMs }] of this.#jobs) {
      if (atMs + startMaxMs > nowMs) break;
      this.started(id, 0, nowMs);
    }
    return [...this.#jobs.values()].map(({ ref }) => ref);
  }
}
