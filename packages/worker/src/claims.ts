/**
 * Turns deliveries into running jobs: whatever waits and has a slot is claimed in one statement,
 * and each verdict is carried out. Claimed is what can start now and nothing else, so a dying
 * process takes no innocent prefetched delivery along.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import type { ClaimedRow, InboxStore } from "@waybill/postgres";
import type { DatabaseGate } from "./database-gate.ts";
import type { InFlight } from "./in-flight.ts";
import type { Incoming } from "./incoming.ts";
import type { Internals } from "./internals.ts";
import type { JobRunner } from "./job-runner.ts";
import { JobStarts, type JobStartsOptions, type SlottedJob } from "./job-starts.ts";
import { databaseErrorKind } from "./own-database.ts";
import type { OrphanPolicy } from "./options.ts";
import type { Parking } from "./parking.ts";
import type { Registry } from "./registry.ts";
import { keyOf, type Settlements } from "./settlements.ts";
import { verdictOf } from "./verdict.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Jobs of one claim at most. */
const claimMax = 500;
/** Milliseconds between two looks whether a job is left. */
const idleLookMs = 20;
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
  readonly orphans: OrphanPolicy;
  /** Undefined while this worker must not claim. */
  readonly bootId: () => string | undefined;
  readonly inFlight: InFlight;
  /** See JobStarts. */
  readonly isHeldBack: JobStartsOptions<Tx>["isHeldBack"];
  /** Called when jobs were claimed and started, and those that could not be let go. */
  readonly onRound: () => void;
}

/** See the head of the file. */
export class Claims<Tx> {
  readonly #options: ClaimsOptions<Tx>;
  readonly #queues: WorkQueue[] = [];
  #scheduled = false;
  #claiming = false;
  #stopped = false;
  readonly #starts: JobStarts<Tx>;
  /** Deliveries whose claim got no answer: perhaps their jobs are ours, so they stay here. */
  #doubtful: (readonly [Incoming, WorkQueue])[] = [];
  /** Jobs on their way from claim to ack. */
  readonly #open = new Set<Promise<void>>();

  constructor(options: ClaimsOptions<Tx>) {
    this.#options = options;
    this.#starts = new JobStarts({
      ...options,
      track: (work) => this.track(work),
      onChange: () => this.schedule(),
      onLanded: (incoming, queue) => this.#land(incoming, queue),
    });
  }

  addQueue(queue: WorkQueue): void {
    this.#queues.push(queue);
  }

  /** True while more jobs of a queue may be started: it has a free slot, or one is being claimed for. */
  mayStart(queue: string): boolean {
    return this.#claiming || this.#queues.some(({ name, hasRoom }) => name === queue && hasRoom);
  }

  /** Follows a change of a queue's limit. */
  refit(queue: WorkQueue): void {
    this.#starts.refit(queue);
    this.schedule();
  }

  /** Claims no more. */
  stop(): void {
    this.#stopped = true;
    this.#starts.stop();
    for (const [incoming] of this.#doubtful.splice(0)) incoming.delivery.requeue();
  }

  /** Resolves when no claimed job is left. */
  async idle(): Promise<void> {
    // Not by a race of the jobs: each of its rounds would stay with each job that is still open.
    while (this.#claiming || this.#open.size > 0) await delay(idleLookMs);
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
    const { gate, bootId, onRound } = this.#options;
    const me = bootId();
    if (this.#claiming || this.#stopped || !gate.open || me === undefined) return;
    if (!this.#starts.mayClaim) return;
    this.#claiming = true;
    for (const [incoming, queue] of this.#doubtful.splice(0)) queue.putBack([incoming]);
    let progress = false;
    try {
      const { batch, held } = this.#gather(me);
      // What was held back was taken for a slot that is still free.
      progress = batch.size > 0 || held;
      if (batch.size > 0) await this.#claim(me, batch);
    } catch (err) {
      this.#options.logger.error({ err }, "claims failed");
    } finally {
      this.#claiming = false;
      onRound();
    }
    if (progress) this.schedule();
  }

  /** Deliveries to claim now, one of each job; each has a slot. */
  #gather(me: string): {
    readonly batch: ReadonlyMap<Incoming, WorkQueue>;
    /** Copies of jobs in flight were taken, and held back. */
    readonly held: boolean;
  } {
    const { inFlight } = this.#options;
    const batch = new Map<Incoming, WorkQueue>();
    const keys = new Set<string>();
    let { mayTakeSuspect } = this.#starts;
    let held = false;
    for (const queue of this.#queues) {
      const later: Incoming[] = [];
      const taken = queue.take(claimMax - batch.size, mayTakeSuspect);
      if (taken.hasSuspect) mayTakeSuspect = false;
      for (const incoming of taken.incoming) {
        if (keys.has(incoming.key)) {
          // A second copy: what becomes of it depends on the first.
          later.push(incoming);
        } else if (inFlight.has(incoming.key)) {
          held = true;
          this.hold(incoming, me);
        } else {
          keys.add(incoming.key);
          batch.set(incoming, queue);
        }
      }
      queue.putBack(later);
    }
    for (const [incoming, queue] of batch) {
      inFlight.add(incoming);
      queue.occupySlot();
    }
    return { batch, held };
  }

  async #claim(me: string, batch: ReadonlyMap<Incoming, WorkQueue>): Promise<void> {
    const { gate, logger } = this.#options;
    try {
      await this.#claimAll(me, batch);
    } catch (error) {
      const kind = databaseErrorKind(error);
      if (kind === "down") {
        gate.close(error);
        for (const [incoming, queue] of batch) {
          this.#forget(incoming, queue);
          if (this.#stopped) incoming.delivery.requeue();
          else this.#doubtful.push([incoming, queue]);
        }
        return;
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
        setTimeout(() => this.#again(incoming, queue), lockedRowMs);
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
    const isBlind = this.#options.orphans === "run";
    const requests = [...batch.keys()].map(({ envelope }) =>
      isBlind ? { ...envelope, origin: null } : envelope,
    );
    await this.#options.internals.failpoint("worker.beforeClaim");
    const sentAt = performance.now();
    const rows = await this.#options.store.claim(me, requests);
    const tookMs = performance.now() - sentAt;
    for (const queue of new Set(batch.values())) queue.noteClaim(tookMs);
    await this.#options.internals.failpoint("worker.afterClaim");
    const byKey = new Map(rows.map((row) => [keyOf(row), row]));
    const jobs: SlottedJob<Tx>[] = [];
    for (const [incoming, queue] of batch) {
      const row = byKey.get(incoming.key);
      if (row === undefined) {
        this.#orphan(incoming, queue);
        continue;
      }
      const { type, version } = incoming.envelope;
      const registration = this.#options.registry.find(queue.name, type, version);
      // Only messages with a handler are claimed here, so the second part is for the compiler.
      if (verdictOf(row, me) === "run" && registration !== undefined) {
        const slotted = incoming.envelope.slot !== null;
        jobs.push({ job: { incoming, row: { ...row, slotted }, registration }, queue });
      } else {
        this.#letGo(me, incoming, queue, row);
      }
    }
    await this.#starts.start(jobs);
  }

  #letGo(me: string, incoming: Incoming, queue: WorkQueue, row: ClaimedRow): void {
    const { logger, parking } = this.#options;
    const verdict = verdictOf(row, me);
    const { id: jobId, dispatch } = incoming.envelope;
    const fields = { jobId, queue: queue.name, dispatch, state: row.state };
    this.#forget(incoming, queue);
    if (verdict === "held") {
      this.track(parking.hold(incoming, row.owner));
      return;
    }
    if (verdict === "cancelled") logger.warn(fields, "job cancelled");
    else logger.debug({ ...fields, verdict }, "delivery settled without a run");
    if (incoming.envelope.slot === null) incoming.delivery.ack();
    else this.track(this.#freeSlot(incoming));
  }

  /** The claim gave no row: the database does not know the job of the message. */
  #orphan(incoming: Incoming, queue: WorkQueue): void {
    const { logger, orphans, parking } = this.#options;
    const { id: jobId, type: jobName } = incoming.envelope;
    this.#forget(incoming, queue);
    if (orphans !== "drop") {
      this.track(parking.orphan(incoming));
      return;
    }
    logger.warn({ jobId, jobName, queue: queue.name }, "orphan dropped");
    incoming.delivery.ack();
  }

  /** Nothing runs under the slot of this delivery any more. Never rejects. */
  async #freeSlot({ envelope, delivery }: Incoming): Promise<void> {
    try {
      await this.#options.settlements.freeSlot({ ...envelope, parked: false });
      delivery.ack();
    } catch {
      // The next one to get it asks again.
      delivery.requeue();
    }
  }

  #forget(incoming: Incoming, queue: WorkQueue): void {
    queue.freeSlot();
    this.#land(incoming, queue);
    this.schedule();
  }

  #land(incoming: Incoming, queue: WorkQueue): void {
    const successor = this.#options.inFlight.remove(incoming.key);
    if (successor !== undefined) this.#again(successor, queue);
  }

  /**
   * Puts a copy of a job in flight aside: here, if it replaces a lost delivery, so that the broker
   * has the job if this process dies; else in the database.
   */
  hold(copy: Incoming, me: string): void {
    const { inFlight, parking } = this.#options;
    if (!inFlight.keepSuccessor(copy)) this.track(parking.hold(copy, me));
  }

  /** Counts work on a delivery as open until it is done. */
  track(work: Promise<void>): void {
    this.#open.add(work);
    void work.finally(() => this.#open.delete(work));
  }
}
