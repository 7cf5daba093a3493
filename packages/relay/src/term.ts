/**
 * The term: the right to move the cursor, a lease by the database's clock with a number. The number
 * goes into every write, so a relay that froze and wakes up cannot move anything; the lease ends by
 * itself, so the term of a relay that died is free soon.
 */

import type { Logger } from "@waybill/core";
import type { RelayStore } from "@waybill/postgres";
import { TermLostError } from "./cursor-saver.ts";
import { pause } from "./pause.ts";

/** Options of {@link Term}. */
export interface TermOptions {
  readonly store: RelayStore;
  readonly epoch: string;
  readonly leaseMs: number;
  readonly logger: Logger;
  /** When the term was asked for, by `performance.now()`. */
  readonly takenAtMs: number;
}

/** A term that this relay holds. */
export class Term {
  readonly epoch: string;
  readonly #options: TermOptions;
  #renewedAtMs: number;

  constructor(options: TermOptions) {
    this.#options = options;
    this.epoch = options.epoch;
    this.#renewedAtMs = options.takenAtMs;
  }

  /** False when so much time has passed (a frozen process) that another relay may hold the term. */
  get isFresh(): boolean {
    return performance.now() - this.#renewedAtMs < this.#options.leaseMs;
  }

  /**
   * Renews the lease.
   *
   * @throws TermLostError if another relay has taken the term, or the driver's error
   */
  async renew(): Promise<void> {
    const { store, leaseMs } = this.#options;
    // Counted from before the question: the answer may be old when it comes.
    const askedAtMs = performance.now();
    if (!(await store.renewTerm(this.epoch, leaseMs))) throw new TermLostError();
    this.#renewedAtMs = Math.max(this.#renewedAtMs, askedAtMs);
  }

  /**
   * Keeps the term until the signal.
   *
   * @throws TermLostError, or what kept it from being renewed for two leases
   */
  async keep(signal: AbortSignal): Promise<void> {
    const { leaseMs, logger } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      await pause(failures === 0 ? leaseMs / 3 : leaseMs / 10, signal);
      if (signal.aborted) return;
      try {
        await within(this.renew(), leaseMs);
        failures = 0;
      } catch (error) {
        if (error instanceof TermLostError) throw error;
        failures += 1;
        logger.debug({ err: error, failures }, "term not renewed");
        if (performance.now() - this.#renewedAtMs > 2 * leaseMs) throw error;
      }
    }
  }
}

async function within(work: Promise<void>, limitMs: number): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("no answer from the database")), limitMs);
  // Its own late failure is nobody's.
  work.catch(() => undefined);
  try {
    await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
