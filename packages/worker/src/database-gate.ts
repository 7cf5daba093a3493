import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";

/** Open for so long, the gate has forgotten earlier failures; in milliseconds. */
const steadyMs = 5_000;

/** Options of {@link DatabaseGate}. */
export interface DatabaseGateOptions {
  /** Rejects while the database does not answer. */
  readonly probe: () => Promise<void>;
  readonly logger: Logger;
  readonly random: () => number;
  /** Called with each change. */
  readonly onChange: (open: boolean) => void;
  /** Ends the probing; who waits then is rejected with its reason. */
  readonly signal: AbortSignal;
}

/**
 * Closed while the database is away. Whoever notices closes it; one loop looks for the database
 * and opens it again. Nothing is claimed, settled or acked meanwhile.
 */
export class DatabaseGate {
  readonly #options: DatabaseGateOptions;
  #closed: PromiseWithResolvers<void> | undefined;
  #failures = 0;
  #openedAt = 0;

  constructor(options: DatabaseGateOptions) {
    this.#options = options;
  }

  get open(): boolean {
    return this.#closed === undefined;
  }

  /** Why {@link whenOpen} rejects; undefined while it does not. */
  get stopReason(): unknown {
    return this.#options.signal.aborted ? this.#options.signal.reason : undefined;
  }

  /** Notes that the database is away. */
  close(err: unknown): void {
    if (this.#closed !== undefined || this.#options.signal.aborted) return;
    this.#closed = Promise.withResolvers<void>();
    this.#closed.promise.catch(() => undefined);
    // A database that answers the probe and fails again at once keeps its delay.
    if (performance.now() - this.#openedAt > steadyMs) this.#failures = 0;
    this.#options.logger.warn({ err }, "database unavailable");
    this.#options.onChange(false);
    void this.#probe();
  }

  /** Resolves when the gate is open; rejects when the worker has stopped. */
  async whenOpen(): Promise<void> {
    if (this.#closed !== undefined) await this.#closed.promise;
    this.#options.signal.throwIfAborted();
  }

  async #probe(): Promise<void> {
    const { probe, random, signal, logger, onChange } = this.#options;
    for (;;) {
      this.#failures += 1;
      const bound = Math.min(3_000, 50 * 2 ** Math.min(this.#failures, 10));
      try {
        await delay(bound / 2 + (random() * bound) / 2, undefined, { signal });
        await probe();
        break;
      } catch (error) {
        if (signal.aborted) {
          this.#closed?.reject(signal.reason);
          this.#closed = undefined;
          return;
        }
        logger.debug({ err: error, failures: this.#failures }, "database still unavailable");
      }
    }
    const closed = this.#closed;
    this.#closed = undefined;
    this.#openedAt = performance.now();
    logger.info({}, "database available again");
    closed?.resolve();
    onChange(true);
  }
}
