import type { Incoming } from "./incoming.ts";

/**
 * Deliveries of one queue that wait for a slot, and the slots. A bulkhead: a queue whose jobs hang
 * takes no slots of the others.
 */
export class WorkQueue {
  readonly name: string;
  readonly concurrency: number;
  #busy = 0;
  #fullSinceMs: number | undefined;
  #freedSlots = 0;
  #waiting: Incoming[] = [];
  /** Jobs that were running when their worker died; see Claims. */
  #suspects: Incoming[] = [];
  /** Called when a slot was taken or became free. */
  onSlotChange: (() => void) | undefined;

  constructor(name: string, concurrency: number) {
    this.name = name;
    this.concurrency = concurrency;
  }

  /** Slots in use: jobs that are being claimed or run. */
  get busy(): number {
    return this.#busy;
  }

  /** Since when no slot has become free, by the monotonic clock; undefined while one is free. */
  get fullSinceMs(): number | undefined {
    return this.#fullSinceMs;
  }

  /** Slots that became free since the start. */
  get freedSlots(): number {
    return this.#freedSlots;
  }

  occupySlot(): void {
    this.#busy += 1;
    if (this.#busy >= this.concurrency) this.#fullSinceMs ??= performance.now();
    this.onSlotChange?.();
  }

  freeSlot(): void {
    this.#busy -= 1;
    this.#freedSlots += 1;
    this.#fullSinceMs = undefined;
    this.onSlotChange?.();
  }

  /** Deliveries held and not started. */
  get waiting(): number {
    return this.#waiting.length + this.#suspects.length;
  }

  push(incoming: Incoming): void {
    this.#waiting.push(incoming);
  }

  pushSuspect(incoming: Incoming): void {
    this.#suspects.push(incoming);
  }

  /** Puts deliveries back to the head, in their order. */
  putBack(incoming: readonly Incoming[]): void {
    this.#waiting.unshift(...incoming);
  }

  /**
   * Takes deliveries for the free slots.
   *
   * @param max limit besides the slots
   * @param withSuspect true where one suspect may be among them
   */
  take(
    max: number,
    withSuspect: boolean,
  ): { readonly incoming: readonly Incoming[]; readonly hasSuspect: boolean } {
    const count = Math.min(max, this.concurrency - this.#busy);
    if (count <= 0) return { incoming: [], hasSuspect: false };
    const suspects = withSuspect ? this.#suspects.splice(0, 1) : [];
    return {
      incoming: [...suspects, ...this.#waiting.splice(0, count - suspects.length)],
      hasSuspect: suspects.length > 0,
    };
  }

  /** Takes everything that has not started. */
  takeAll(): readonly Incoming[] {
    const all = [...this.#suspects, ...this.#waiting];
    this.#suspects = [];
    this.#waiting = [];
    return all;
  }
}
