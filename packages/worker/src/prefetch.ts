/**
 * How many deliveries to hold. Twice the slots keeps quick jobs coming; but what waits behind slow
 * jobs could run in an idle worker, so a queue whose jobs turn out to be slow gets no more than it
 * has slots for, and gives back what waits. Where all slots are taken for long, nothing is taken at
 * all until one is free, and then no more than fits: what waits here would outlast the broker's
 * patience, and each return counts towards its delivery limit. How many slots there are follows the
 * worker's share of the queue's limit.
 */

import type { Consumer } from "@waybill/rabbitmq";
import type { Door } from "./door.ts";
import type { WorkQueue } from "./work-queue.ts";

/** All slots taken for so long, with deliveries waiting, means slow; in milliseconds. */
const slowAfterMs = 1_000;
/** Jobs a slot that end within a look make a queue quick again. */
const quickJobsPerSlot = 5;
/** Milliseconds between two looks. */
export const prefetchLookMs = 500;
/** Least time between two changes, in milliseconds: each gives the consumer a new channel. */
const settleMs = 10_000;
/** A prefetch follows what is claimed ahead in steps of at least this factor: each gives a new channel. */
const aheadStep = 1.3;
/** All slots taken for so long, with deliveries waiting, means long; at most, in milliseconds. */
const longAfterMaxMs = 5_000;

/** Deliveries to hold for quick jobs: the next ones are here when the present ones end. */
export function prefetchOf(slots: number): number {
  return Math.min(1_000, Math.max(10, 2 * slots));
}

/** Adapts one consumer's prefetch; see the head of the file. */
export class PrefetchTuner {
  readonly #queue: WorkQueue;
  readonly #consumer: Pick<Consumer, "setPrefetch">;
  readonly #door: Pick<Door, "shut" | "open">;
  readonly #longAfterMs: number;
  #prefetch: number;
  #pace: "quick" | "slow" | "long" = "quick";
  #changedAt = Number.NEGATIVE_INFINITY;
  #freed = 0;
  /** When all slots were last seen taken. */
  #fullAt = 0;

  /** @param holdMs how long deliveries are held */
  constructor(
    queue: WorkQueue,
    consumer: Pick<Consumer, "setPrefetch">,
    door: Pick<Door, "shut" | "open">,
    holdMs: number,
  ) {
    this.#queue = queue;
    this.#prefetch = prefetchOf(queue.limit);
    this.#consumer = consumer;
    this.#door = door;
    this.#longAfterMs = Math.min(longAfterMaxMs, holdMs / 2);
    queue.onSlotChange = () => {
      if (this.#pace === "long") this.#fit();
    };
  }

  /** Looks once. Call it every {@link prefetchLookMs}. */
  look(nowMs: number): void {
    const { limit, fullSinceMs, freedSlots, waiting } = this.#queue;
    const freed = freedSlots - this.#freed;
    this.#freed = freedSlots;
    // Nothing is taken at all: nothing is to be learnt.
    if (limit === 0) return;
    const fullMs = fullSinceMs === undefined ? 0 : nowMs - fullSinceMs;
    if (fullSinceMs !== undefined) this.#fullAt = nowMs;
    const isLong = waiting > 0 && fullMs > this.#longAfterMs;
    if (isLong) {
      if (this.#pace !== "long") {
        this.#pace = "long";
        void this.#door.shut("slots taken");
      }
      // Also what was on its way when the door was shut, which is seldom any.
      this.#giveBack();
      return;
    }
    if (this.#pace === "quick") this.#keepAhead();
    if (nowMs - this.#changedAt < settleMs) return;
    switch (this.#pace) {
      case "quick":
        if (waiting > 0 && fullMs > slowAfterMs) {
          this.#change("slow", limit, nowMs);
          this.#giveBack();
        }
        return;
      case "slow":
        if (freed >= quickJobsPerSlot * limit) {
          this.#change("quick", prefetchOf(limit), nowMs);
        }
        return;
      case "long":
        // There is less to do than there are slots, or what runs beside the long ones is quick.
        if (nowMs - this.#fullAt > settleMs || freed >= quickJobsPerSlot) {
          this.#change("slow", limit, nowMs);
          this.#door.open("slots taken");
        }
    }
  }

  /** Follows a change of the queue's limit, and gives back what would wait for longer now. */
  refit(): void {
    const { limit, busy } = this.#queue;
    if (limit === 0) return;
    if (this.#pace === "long") {
      this.#fit();
      return;
    }
    const prefetch = this.#pace === "quick" ? prefetchOf(limit + this.#queue.ahead) : limit;
    this.#set(prefetch);
    for (const { delivery } of this.#queue.takeAbove(Math.max(0, prefetch - busy))) {
      delivery.requeue();
    }
  }

  /** Holds more where more is claimed ahead; less only with a change of the limit or the pace. */
  #keepAhead(): void {
    const wanted = prefetchOf(this.#queue.limit + this.#queue.ahead);
    if (wanted > aheadStep * this.#prefetch) this.#set(wanted);
  }

  #set(prefetch: number): void {
    this.#prefetch = prefetch;
    this.#consumer.setPrefetch(prefetch);
  }

  /** Takes as many deliveries as there are free slots. */
  #fit(): void {
    const free = this.#queue.limit - this.#queue.busy;
    if (free <= 0) {
      void this.#door.shut("slots taken");
      return;
    }
    this.#set(free);
    this.#door.open("slots taken");
  }

  /** Where nothing comes after it only: each return counts towards the broker's delivery limit. */
  #giveBack(): void {
    for (const { delivery } of this.#queue.takeAll()) delivery.requeue();
  }

  #change(pace: "quick" | "slow", prefetch: number, nowMs: number): void {
    this.#pace = pace;
    this.#changedAt = nowMs;
    this.#set(prefetch);
  }
}
