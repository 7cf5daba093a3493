/** Milliseconds between two reports that leave a thread. */
const pauseMs = 100;

/**
 * Lets a job's reports of progress out of its thread one by one: a loop that reports in each turn
 * would otherwise fill the worker's memory and its event loop.
 */
export class ProgressSender {
  readonly #send: (progress: object) => void;
  #waiting: object | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (progress: object) => void) {
    this.#send = send;
  }

  /** What is left out stays as it was, so reports that wait become one. */
  report(progress: object): void {
    this.#waiting = { ...this.#waiting, ...progress };
    // By the clock and not by the timer alone, which a loop that never awaits does not let run.
    const wait = this.#sentAt + pauseMs - performance.now();
    if (wait <= 0) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), wait).unref();
  }

  /** Sends what waits. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const progress = this.#waiting;
    if (progress === undefined) return;
    this.#waiting = undefined;
    this.#sentAt = performance.now();
    this.#send(progress);
  }
}
