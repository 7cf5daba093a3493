import type { Incoming } from "./incoming.ts";

/** Jobs that take longer, in milliseconds, are not claimed ahead: an idle worker might run them. */
const aheadRunMsMax = 1_000;
/** Nor is anything where no job has ended for so long, in milliseconds. */
const aheadIdleMs = 1_000;
/** Jobs that start together end together: what ends within so many milliseconds is claimed ahead as well. */
const burstMs = 20;
/** Part of a new value in a moving average. */
const averagePart = 1 / 8;

const average = (before: number | undefined, value: number): number =>
  before === undefined ? value : before + (value - before) * averagePart;

/**
 * Deliveries of one queue that wait for a slot, and the slots. A bulkhead: a queue whose jobs hang
 * takes no slots of the others. How many slots there are may change: by the worker's share of the
 * queue's limit (see shares.ts), and by a pause.
 *
 * A share is of handlers that run, and is all that may be used of a limit; while the next job is claimed,
 * a place in it would be idle, which for quick jobs is most of the time. So where there is a share some
 * jobs are claimed ahead, as many as are started while a claim is on its way, and start when a place is
 * free (see job-starts.ts).
 */
export class WorkQueue {
  readonly name: string;
  /** Jobs that this worker runs at a time, whatever its share. */
  readonly concurrency: number;
  #busy = 0;
  #running = 0;
  /** Moving averages, in milliseconds. */
  #runMs: number | undefined;
  #claimMs: number | undefined;
  #endedAt = Number.NEGATIVE_INFINITY;
  #gate = Number.POSITIVE_INFINITY;
  #isShut = false;
  #fullSinceMs: number | undefined;
  #freedSlots = 0;
  #waiting: Incoming[] = [];
  /** Jobs that were running when their worker died; see Claims. */
  #suspects: Incoming[] = [];
  /** Called when a slot was taken or became free. */
  onSlotChange: (() => void) | undefined;
  /** Called when a handler has ended. */
  onEnded: (() => void) | undefined;
  /** Called when {@link limit} has changed. */
  onLimitChange: (() => void) | undefined;

  constructor(name: string, concurrency: number) {
    this.name = name;
    this.concurrency = concurrency;
  }

  /** Slots in use: jobs that are being claimed or run. */
  get busy(): number {
    return this.#busy;
  }

  /** Handlers that run: they count towards the queue's limit over all workers. */
  get running(): number {
    return this.#running;
  }

  /** True where a job that is claimed may start. */
  get hasRoom(): boolean {
    return this.#running < this.limit;
  }

  /** Jobs to claim above the limit. */
  get ahead(): number {
    const { limit } = this;
    const runMs = this.#runMs ?? Number.POSITIVE_INFINITY;
    const isSlow = runMs > aheadRunMsMax || performance.now() - this.#endedAt > aheadIdleMs;
    if (!Number.isFinite(this.#gate) || isSlow) return 0;
    // A job that ends just after a claim was sent waits for that one and for its own.
    const aheadMs = 2 * (this.#claimMs ?? 0) + burstMs;
    return Math.min(4 * limit, Math.ceil((limit * aheadMs) / Math.max(1, runMs)));
  }

  /** Jobs that may run here by the queue's limit over all workers; infinite where there is none. */
  get gate(): number {
    return this.#gate;
  }

  /** Slots there are now. */
  get limit(): number {
    return this.#isShut ? 0 : Math.min(this.concurrency, this.#gate);
  }

  /** True while nothing is to be taken: its deliveries go back. */
  get isShut(): boolean {
    return this.#isShut;
  }

  /** Since when no slot has become free, by the monotonic clock; undefined while one is free. */
  get fullSinceMs(): number | undefined {
    return this.#fullSinceMs;
  }

  /** Slots that became free since the start. */
  get freedSlots(): number {
    return this.#freedSlots;
  }

  setGate(gate: number): void {
    this.#change(() => (this.#gate = gate));
  }

  setShut(isShut: boolean): void {
    this.#change(() => (this.#isShut = isShut));
  }

  #change(set: () => void): void {
    const before = this.limit;
    set();
    if (this.limit === before) return;
    if (this.#busy < this.limit) this.#fullSinceMs = undefined;
    else this.#fullSinceMs ??= performance.now();
    this.onLimitChange?.();
  }

  /** Notes how long a claim took. */
  noteClaim(milliseconds: number): void {
    this.#claimMs = average(this.#claimMs, milliseconds);
  }

  /** A handler starts in a slot that was taken before. */
  beginRun(): void {
    this.#running += 1;
  }

  /** It has ended; its slot is freed next. */
  endRun(milliseconds: number): void {
    this.#running -= 1;
    this.#runMs = average(this.#runMs, milliseconds);
    this.#endedAt = performance.now();
    this.onEnded?.();
  }

  occupySlot(): void {
    this.#busy += 1;
    if (this.#busy >= this.limit) this.#fullSinceMs ??= performance.now();
    this.onSlotChange?.();
  }

  freeSlot(): void {
    this.#busy -= 1;
    this.#freedSlots += 1;
    // Where the limit was lowered below what runs, there is still none free.
    this.#fullSinceMs = this.#busy < this.limit ? undefined : performance.now();
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
   * Takes deliveries for the free slots, and those to be claimed ahead.
   *
   * @param max limit besides the slots
   * @param withSuspect true where one suspect may be among them
   */
  take(
    max: number,
    withSuspect: boolean,
  ): { readonly incoming: readonly Incoming[]; readonly hasSuspect: boolean } {
    const { limit } = this;
    const count = limit === 0 ? 0 : Math.min(max, limit + this.ahead - this.#busy);
    if (count <= 0) return { incoming: [], hasSuspect: false };
    const suspects = withSuspect ? this.#suspects.splice(0, 1) : [];
    return {
      incoming: [...suspects, ...this.#waiting.splice(0, count - suspects.length)],
      hasSuspect: suspects.length > 0,
    };
  }

  /** Takes the last ones of those that wait, above so many. */
  takeAbove(count: number): readonly Incoming[] {
    return this.#waiting.splice(Math.max(0, count - this.#suspects.length));
  }

  /** Takes everything that has not started. */
  takeAll(): readonly Incoming[] {
    const all = [...this.#suspects, ...this.#waiting];
    this.#suspects = [];
    this.#waiting = [];
    return all;
  }
}
