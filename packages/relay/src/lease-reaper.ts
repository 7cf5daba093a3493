import type { Logger } from "@waybill/core";
import type { RelayStore } from "@waybill/postgres";

/** Options of {@link LeaseReaper}. */
export interface LeaseReaperOptions {
  /** On the pool. */
  readonly store: RelayStore;
  /** Runs work that reads whole tables on a connection made for it. */
  readonly patiently: <T>(work: (store: RelayStore) => Promise<T>) => Promise<T>;
  readonly reapAfterMs: number;
  readonly logger: Logger;
}

const batch = 500;
const fullEveryMs = 30 * 60_000;

/**
 * Dispatches running jobs of dead workers again, for the case that the broker has lost their message.
 * Usually it has not: the message comes back by itself when the worker's connection ends. Looking
 * through the inbox is dear, so it is done after a worker died, and every half hour.
 */
export class LeaseReaper {
  readonly #options: LeaseReaperOptions;
  #seenDeath: string | undefined;
  #lastFullMs = performance.now();

  constructor(options: LeaseReaperOptions) {
    this.#options = options;
  }

  /** Looks once; resolves to the milliseconds until the next look. */
  async reap(): Promise<number> {
    const { store, patiently, reapAfterMs, logger } = this.#options;
    const death = await store.latestDeath(reapAfterMs);
    const isFull = performance.now() - this.#lastFullMs > fullEveryMs;
    if ((death !== undefined && death !== this.#seenDeath) || isFull) {
      const jobs = await patiently(async (patient) => {
        let sum = 0;
        for (;;) {
          const some = await patient.redispatchOrphans(reapAfterMs, batch);
          sum += some;
          if (some < batch) return sum;
        }
      });
      if (jobs > 0) logger.warn({ jobs }, "jobs of dead workers dispatched again");
      this.#seenDeath = death;
      this.#lastFullMs = performance.now();
    }
    return Math.min(60_000, Math.max(100, reapAfterMs / 2));
  }
}
