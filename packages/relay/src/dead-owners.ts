/**
 * The lease reaper: what a dead worker owned starts elsewhere. A job whose delivery was acked is
 * protected by its lease alone, which fires as soon as its owner is gone. All else that a worker ran
 * usually comes back by itself, when the broker sees the connection's end; but the broker sees nothing
 * of a frozen worker for a while, so that the jobs of a worker whose lease is over are dispatched again.
 * Copies are recognised by the inbox, and an owner that wakes up is kept from writing by its token.
 */

import type { Logger } from "@waybill/core";
import type { RelayStore } from "@waybill/postgres";
import type { RelayFailpointHook } from "./internals.ts";

/** Options of {@link DeadOwners}. */
export interface DeadOwnersOptions {
  /** On the pool. */
  readonly store: RelayStore;
  /** Runs work that reads whole tables on a connection made for it. */
  readonly patiently: <T>(work: (store: RelayStore) => Promise<T>) => Promise<T>;
  readonly logger: Logger;
  readonly failpoint: RelayFailpointHook;
  /** Called when timers have become due. */
  readonly onLeases: () => void;
  /** Called when rows came into the outbox. */
  readonly onDispatched: () => void;
}

const lookEveryMs = 200;
/** A lock that is missing for so long is not that of a connection that is just opened again. */
const missingMs = 300;
/** Milliseconds until the next look where a lock is missing. */
const lookSoonMs = 50;
const batch = 1_000;
/** What runs was mostly enqueued lately, and is found without reading all of the inbox. */
const recentMs = 24 * 3_600_000;
/** How often all is looked through, for what the broker has lost. */
const fullEveryMs = 30 * 60_000;

/** See the head of the file. */
export class DeadOwners {
  readonly #options: DeadOwnersOptions;
  #fullAtMs = 0;
  /** Since when the locks of owners whose lease runs are missing. */
  #missing: ReadonlyMap<string, number> = new Map();

  constructor(options: DeadOwnersOptions) {
    this.#options = options;
  }

  /** Lets the leases of dead owners fire; resolves to the milliseconds until the next look. */
  async fireLeases(): Promise<number> {
    const { store, logger, failpoint, onLeases } = this.#options;
    const nowMs = performance.now();
    const before = [...this.#missing].filter(([, sinceMs]) => nowMs - sinceMs >= missingMs);
    const { jobs, missing } = await store.fireLeases(
      batch,
      before.map(([owner]) => owner),
    );
    this.#missing = new Map(missing.map((owner) => [owner, this.#missing.get(owner) ?? nowMs]));
    if (jobs === 0) return missing.length > 0 ? lookSoonMs : lookEveryMs;
    failpoint("relay.afterLeases");
    onLeases();
    logger.warn({ jobs }, "leases of dead workers fired");
    return jobs < batch ? lookEveryMs : 0;
  }

  /**
   * Dispatches running jobs of workers whose lease is over again, once per death; resolves to the
   * milliseconds until the next look. Workers are marked last: after a crash before that, the next
   * look finds their jobs on their way.
   */
  async sweep(): Promise<number> {
    const { store, patiently, logger, failpoint } = this.#options;
    const dead = await store.deadWorkers();
    const isFull = performance.now() >= this.#fullAtMs;
    if (dead.length === 0 && !isFull) return lookEveryMs;
    const jobs = await patiently(async (patient) => {
      const recent = await this.#redispatch(patient, recentMs);
      // One that ran nothing at its last heartbeat has taken little since, and that is recent.
      if (!isFull && dead.every(({ running }) => running === 0)) return recent;
      return recent + (await this.#redispatch(patient, undefined));
    });
    failpoint("relay.beforeSwept");
    if (dead.length > 0) await store.markSwept(dead.map(({ id }) => id));
    if (isFull) this.#fullAtMs = performance.now() + fullEveryMs;
    if (jobs > 0)
      logger.warn({ jobs, workers: dead.length }, "jobs of dead workers dispatched again");
    return lookEveryMs;
  }

  async #redispatch(patient: RelayStore, sinceMs: number | undefined): Promise<number> {
    for (let jobs = 0; ;) {
      const some = await patient.redispatchOrphans(sinceMs, batch);
      if (some > 0) this.#options.onDispatched();
      jobs += some;
      if (some < batch) return jobs;
    }
  }
}
