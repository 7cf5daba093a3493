import { pause } from "../pause.ts";

/** Waits between rounds, until a time or until something comes. */
export class Cadence {
  #isAwake = false;
  #wake = Promise.withResolvers<void>();

  /** Something has come. */
  wake(): void {
    this.#isAwake = true;
    this.#wake.resolve();
  }

  /** Waits until then; not at all where there is something to do. */
  async pause(isBusy: boolean, untilMs: number, signal: AbortSignal): Promise<void> {
    const delayMs = untilMs - performance.now();
    if (!isBusy && !this.#isAwake && delayMs > 0 && !signal.aborted) {
      this.#wake = Promise.withResolvers<void>();
      await Promise.race([this.#wake.promise, pause(delayMs, signal)]);
    }
    this.#isAwake = false;
  }
}
