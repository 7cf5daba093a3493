/**
 * Turns deliveries into running jobs: whatever waits and has a slot is claimed in one statement,
 * and each verdict is carried out. Claimed is what can start now and nothing else, so a dying
 * process takes no innocent prefetched delivery along.
 *
 * A job whose worker died is a suspect: perhaps it kills its process. One process runs one suspect
 * at a time, and hands further ones back in the meantime, so that a poisonous job spends its own
 * crash budget and not that of its neighbours.
 */

import type { Logger } from "@waybill/core";
import type { ClaimedRow, InboxStore } from "@waybill/postgres";
import type { DatabaseGate } from "./database-gate.ts";
import type { Incoming } from "./incoming.ts";
import type { Internals } from "./internals.ts";
import type { ClaimedJob, JobRunner } from "./job-runner.ts";
import { databaseErrorKind } from "./own-database.ts";
import type { Parking } from "./parking.ts";
import type { Registry } from "./registry.ts";
import { keyOf, type Settlements } from "./settlements.ts";
import { verdictOf } from "./verdict.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Jobs of one claim at most. */
const claimMax = 500;
/** Milliseconds until a delivery whose row was locked is claimed again. */
const lockedRowMs = 1_000;

/** Options of {@link Claims}. */
export interface ClaimsOptions<Tx> {
  readonly store: InboxStore;
  readonly gate: DatabaseGate;
  readonly registry: Registry<Tx>;
  readonly runner: JobRunner<Tx>;
  readonly settlements: Settlements;
  readonly parking: Parking;
  readonly logger: Logger;
  readonly internals: Internals;
  readonly crashBudget: number;
  /** Undefined while this worker must not claim. */
  readonly bootId: () => string | undefined;
  /** Jobs that this process is claiming, running or settling, by key. */
  readonly inFlight: Set<string>;
}

/** See the head of the file. */
export class Claims<Tx> {
  readonly #options: ClaimsOptions<Tx>;
  readonly #queues: WorkQueue[] = [];
  #scheduled = false;
  #claiming = false;
  #stopped = false;
  /** Key of the suspect that runs now. */
  #suspect: string | undefined;
  /** Jobs on their way from claim to ack. */
  readonly #open = new Set<Promise<void>>();

  constructor(options: ClaimsOptions<Tx>) {
    this.#options = options;
  }

  addQueue(queue: WorkQueue): void {
    this.#queues.push(queue);
  }

  /** Claims no more. */
  stop(): void {
    this.#stopped = true;
  }

  /** Resolves when no claimed job is left. */
  async idle(): Promise<void> {
    while (this.#claiming || this.#open.size > 0) {
      await Promise.race([...this.#open, new Promise((resolve) => setTimeout(resolve, 20))]);
    }
  }

  /** Looks for work at the end of this turn of the event loop, when its deliveries are all here. */
  schedule(): void {
    if (this.#scheduled || this.#claiming) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#round();
    });
  }

  async #round(): Promise<void> {
    const { gate, bootId } = this.#options;
    const me = bootId();
    if (this.#claiming || this.#stopped || !gate.open || me === undefined) return;
    this.#claiming = true;
    let progress = false;
    try {
      const batch = this.#gather(me);
      if (batch.size > 0) {
        await this.#claim(me, batch);
        progress = true;
      }
    } catch (err) {
      this.#options.logger.error({ err }, "claims failed");
    } finally {
      this.#claiming = false;
    }
    if (progress) this.schedule();
  }

  /** Deliveries to claim now, one of each job; each has a slot. */
  #gather(me: string): ReadonlyMap<Incoming, WorkQueue> {
    const { inFlight, parking } = this.#options;
    const batch = new Map<Incoming, WorkQueue>();
    const keys = new Set<string>();
    let mayTakeSuspect = this.#suspect === undefined;
    for (const queue of this.#queues) {
      const later: Incoming[] = [];
      const taken = queue.take(claimMax - batch.size, mayTakeSuspect);
      if (taken.hasSuspect) mayTakeSuspect = false;
      for (const incoming of taken.incoming) {
        if (keys.has(incoming.key)) {
          // A second copy: what becomes of it depends on the first.
          later.push(incoming);
        } else if (inFlight.has(incoming.key)) {
          this.track(parking.hold(incoming, me));
        } else {
          keys.add(incoming.key);
          batch.set(incoming, queue);
        }
      }
      queue.putBack(later);
    }
    for (const [incoming, queue] of batch) {
      inFlight.add(incoming.key);
      queue.busy += 1;
    }
    return batch;
  }

  async #claim(me: string, batch: ReadonlyMap<Incoming, WorkQueue>): Promise<void> {
    const { gate, logger } = this.#options;
    try {
      await this.#claimAll(me, batch);
    } catch (error) {
      const kind = databaseErrorKind(error);
      if (kind === "down") {
        gate.close(error);
      } else if (batch.size > 1) {
        // One bad or locked row must not keep its neighbours from running.
        for (const single of batch) await this.#claim(me, new Map([single]));
        return;
      } else if (kind === "data") {
        for (const [incoming, queue] of batch) {
          logger.error({ err: error, queue: queue.name }, "message refused by the database");
          this.#forget(incoming, queue);
          // Its bytes are safe in the dead-letter queue, which is all that can be done.
          incoming.delivery.deadLetter();
        }
        return;
      }
      for (const [incoming, queue] of batch) {
        this.#forget(incoming, queue);
        // A row that stays locked belongs to a frozen transaction: the others go first meanwhile.
        if (kind === "retry") setTimeout(() => this.#again(incoming, queue), lockedRowMs);
        else this.#again(incoming, queue);
      }
    }
  }

  #again(incoming: Incoming, queue: WorkQueue): void {
    if (this.#stopped || !this.#options.gate.open) {
      incoming.delivery.requeue();
      return;
    }
    queue.push(incoming);
    this.schedule();
  }

  async #claimAll(me: string, batch: ReadonlyMap<Incoming, WorkQueue>): Promise<void> {
    const requests = [...batch.keys()].map(({ envelope }) => envelope);
    const rows = await this.#options.store.claim(me, requests);
    await this.#options.internals.failpoint("worker.afterClaim");
    const byKey = new Map(rows.map((row) => [keyOf(row), row]));
    for (const [incoming, queue] of batch) {
      const row = byKey.get(incoming.key);
      if (row === undefined) throw new Error(`The claim gave no row for ${incoming.envelope.id}.`);
      this.#carryOut(me, incoming, queue, row);
    }
  }

  #carryOut(me: string, incoming: Incoming, queue: WorkQueue, row: ClaimedRow): void {
    const { logger, parking } = this.#options;
    const verdict = verdictOf(row, me);
    if (verdict === "run") {
      this.#start(incoming, queue, row);
      return;
    }
    const { id: jobId, dispatch } = incoming.envelope;
    const fields = { jobId, queue: queue.name, dispatch, state: row.state };
    this.#forget(incoming, queue);
    switch (verdict) {
      case "held":
        this.track(parking.hold(incoming, row.owner));
        return;
      case "cancelled":
        logger.warn(fields, "job cancelled");
        break;
      case "stale":
      case "duplicate":
        logger.debug(fields, `delivery is ${verdict === "stale" ? "stale" : "a duplicate"}`);
        break;
    }
    incoming.delivery.ack();
  }

  #start(incoming: Incoming, queue: WorkQueue, row: ClaimedRow): void {
    const { registry, runner, crashBudget, bootId } = this.#options;
    const { type, version } = incoming.envelope;
    const registration = registry.find(queue.name, type, version);
    // Only known messages are claimed here.
    if (registration === undefined) throw new Error(`No handler for ${type}.`);
    const job: ClaimedJob<Tx> = { incoming, row, registration };
    if (row.crashes > crashBudget) {
      this.#bury(runner.bury(job), incoming, queue);
      return;
    }
    // Stopped, or this boot id died, while the claim was on its way.
    if (this.#stopped || bootId() !== row.owner) {
      this.track(this.#putAside(job, queue, false));
      return;
    }
    if (row.crashes > 0) {
      if (this.#suspect !== undefined) {
        this.track(this.#putAside(job, queue, true));
        return;
      }
      this.#suspect = incoming.key;
    }
    let slot: WorkQueue | undefined = queue;
    const freeSlot = (): void => {
      if (slot === undefined) return;
      slot.busy -= 1;
      slot = undefined;
      if (this.#suspect === incoming.key) this.#suspect = undefined;
      this.schedule();
    };
    this.track(
      runner.run(job, freeSlot).finally(() => {
        freeSlot();
        this.#options.inFlight.delete(incoming.key);
      }),
    );
  }

  /** Gives a claimed job back unstarted; a suspect stays here for its turn. */
  async #putAside(job: ClaimedJob<Tx>, queue: WorkQueue, wait: boolean): Promise<void> {
    const { incoming, row } = job;
    try {
      const dispatch = incoming.envelope.dispatch;
      await this.#options.settlements.release({ ...row, dispatch });
    } catch (err) {
      this.#options.logger.warn({ err, jobId: row.id }, "job could not be handed back");
    }
    this.#forget(incoming, queue);
    if (wait && !this.#stopped) {
      queue.pushSuspect(incoming);
      this.schedule();
    } else {
      incoming.delivery.requeue();
    }
  }

  #bury(work: Promise<void>, incoming: Incoming, queue: WorkQueue): void {
    this.track(work.finally(() => this.#forget(incoming, queue)));
  }

  #forget(incoming: Incoming, queue: WorkQueue): void {
    queue.busy -= 1;
    this.#options.inFlight.delete(incoming.key);
    this.schedule();
  }

  /** Counts work on a delivery as open until it is done. */
  track(work: Promise<void>): void {
    this.#open.add(work);
    void work.finally(() => this.#open.delete(work));
  }
}
