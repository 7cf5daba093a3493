/**
 * How many deliveries to hold. Twice the slots keeps quick jobs coming; but what waits behind slow
 * jobs could run in an idle worker, so a queue whose jobs turn out to be slow gets no more than it
 * has slots for, and gives back what waits.
 */

import type { Consumer } from "@waybill/rabbitmq";
import type { WorkQueue } from "./work-queue.ts";

/** All slots taken for so long, with deliveries waiting, means slow; in milliseconds. */
const slowAfterMs = 1_000;
/** Jobs a slot that end within a look make a queue quick again. */
const quickJobsPerSlot = 5;
/** Milliseconds between two looks. */
export const prefetchLookMs = 500;
/** Least time between two changes, in milliseconds: each gives the consumer a new channel. */
const settleMs = 10_000;

/** Deliveries to hold for quick jobs: the next ones are here when the present ones end. */
export function prefetchOf(concurrency: number): number {
  return Math.min(1_000, Math.max(10, 2 * concurrency));
}

/** Adapts one consumer's prefetch; see the head of the file. */
export class PrefetchTuner {
  readonly #queue: WorkQueue;
  readonly #consumer: Pick<Consumer, "setPrefetch">;
  #isSlow = false;
  #changedAt = Number.NEGATIVE_INFINITY;
  #freed = 0;

  constructor(queue: WorkQueue, consumer: Pick<Consumer, "setPrefetch">) {
    this.#queue = queue;
    this.#consumer = consumer;
  }

  /** Looks once. Call it every {@link prefetchLookMs}. */
  look(nowMs: number): void {
    const { concurrency, fullSinceMs, freedSlots, waiting } = this.#queue;
    const freed = freedSlots - this.#freed;
    this.#freed = freedSlots;
    if (nowMs - this.#changedAt < settleMs) return;
    if (this.#isSlow) {
      if (freed < quickJobsPerSlot * concurrency) return;
      this.#change(false, prefetchOf(concurrency), nowMs);
    } else if (waiting > 0 && fullSinceMs !== undefined && nowMs - fullSinceMs > slowAfterMs) {
      this.#change(true, concurrency, nowMs);
      // Once only: each return counts towards the broker's delivery limit.
      for (const { delivery } of this.#queue.takeAll()) delivery.requeue();
    }
  }

  #change(isSlow: boolean, prefetch: number, nowMs: number): void {
    this.#isSlow = isSlow;
    this.#changedAt = nowMs;
    this.#consumer.setPrefetch(prefetch);
  }
}
