/** The wait between two rounds of a loop, which others may end early. */
export class LoopPause {
  readonly #minMs: number;
  readonly #stop = new AbortController();
  #isEnded = false;
  #maxMs = Number.POSITIVE_INFINITY;
  #end: (() => void) | undefined;

  /** @param minMs milliseconds that each pause lasts at least */
  constructor(minMs: number) {
    this.#minMs = minMs;
  }

  get isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Ends this pause, or makes the next one the shortest. */
  end(): void {
    this.#isEnded = true;
    this.#end?.();
  }

  /** Makes the next pause no longer than this. */
  shorten(milliseconds: number): void {
    this.#maxMs = Math.min(this.#maxMs, milliseconds);
  }

  /** Ends this pause and all others. */
  stop(): void {
    this.#stop.abort();
    this.#end?.();
  }

  /** Waits for `milliseconds`, or until somebody ends it. */
  async wait(milliseconds: number): Promise<void> {
    const startedAt = performance.now();
    const wanted = Math.min(milliseconds, this.#maxMs);
    this.#maxMs = Number.POSITIVE_INFINITY;
    while (!this.isStopped) {
      const ms = (this.#isEnded ? this.#minMs : wanted) - (performance.now() - startedAt);
      if (ms <= 0) break;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#end = resolve;
      const timer = setTimeout(resolve, ms);
      // It alone never keeps a process alive.
      timer.unref();
      await promise;
      clearTimeout(timer);
      this.#end = undefined;
      // Ended early: what is left of the shortest pause is waited for without being ended again.
    }
    this.#isEnded = false;
  }
}
