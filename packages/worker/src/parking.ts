/**
 * Puts messages aside that must not run now or cannot be run here: copies of running jobs, types
 * without a handler, and bytes that nobody can read. Each is safe in the database before its
 * delivery is acked.
 */

import {
  type Envelope,
  type Failure,
  isUnreadable,
  type Logger,
  statedFailure,
} from "@waybill/core";
import type { ClaimedRow } from "@waybill/postgres";
import type { DatabaseGate } from "./database-gate.ts";
import { Batcher } from "./batcher.ts";
import type { InFlight } from "./in-flight.ts";
import type { Incoming } from "./incoming.ts";
import { databaseErrorKind, type OwnDatabase } from "./own-database.ts";
import { plainEnvelope, type Settlements } from "./settlements.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** Rounds of a parked message without a handler, in milliseconds; half of it is by chance. */
const noHandlerRoundMs = 40_000;
/** A held copy comes back this long after the lease of the worker that runs its job, at most. */
const heldJitterMs = 1_000;

/** Options of {@link Parking}. */
export interface ParkingOptions {
  readonly database: OwnDatabase;
  readonly settlements: Settlements;
  readonly gate: DatabaseGate;
  readonly logger: Logger;
  readonly random: () => number;
  readonly noHandlerWindowMs: number;
  readonly bootId: () => string | undefined;
  readonly inFlight: InFlight;
}

interface Burial {
  readonly incoming: Incoming;
  readonly owner: string;
  readonly failure: Failure;
}

interface Buried {
  readonly verdict: Verdict;
  readonly owner: string | null;
}

/** See the head of the file. */
export class Parking {
  readonly #options: ParkingOptions;
  readonly #burials: Batcher<Burial, Buried>;

  constructor(options: ParkingOptions) {
    this.#options = options;
    this.#burials = new Batcher({
      flush: (burials) => this.#buryAll(burials),
      delayMs: 2,
      batchMax: 50,
      gate: options.gate,
      random: options.random,
    });
  }

  /** Parks a copy of a job that `owner` runs, until that worker's lease is over. Never rejects. */
  async hold(incoming: Incoming, owner: string | null): Promise<void> {
    const { settlements, logger, random } = this.#options;
    const { envelope, delivery } = incoming;
    try {
      await settlements.park({
        envelope,
        reason: "held",
        detail: `a copy; worker ${owner ?? "unknown"} runs the job`,
        owner,
        delayMs: 100 + random() * heldJitterMs,
        windowMs: null,
        parkedAt: null,
        fireAt: null,
      });
      logger.debug(
        { jobId: envelope.id, queue: envelope.queue },
        "copy of a running job held back",
      );
      delivery.ack();
    } catch (err) {
      this.#giveBack(incoming, err);
    }
  }

  /** Puts a message aside that another producer wants to run at a later time. Never rejects. */
  async delay(incoming: Incoming, fireAt: Date): Promise<void> {
    await this.#putAside(incoming, "delay", "asked for by the message", fireAt);
  }

  /** Sends a message that came to a governed queue without a slot to the backlog. Never rejects. */
  async toBacklog(incoming: Incoming): Promise<void> {
    await this.#putAside(incoming, "ungoverned", "came without a slot, goes to the backlog", null);
  }

  /** Keeps a message whose job the database does not know any more for an operator. Never rejects. */
  async orphan(incoming: Incoming): Promise<void> {
    const { id: jobId, queue, type: jobName, origin } = incoming.envelope;
    const detail = `published by an earlier life of this database (${origin ?? "unknown"}), which this one does not know`;
    this.#options.logger.warn({ jobId, jobName, queue, detail }, "orphan parked");
    await this.#putAside(incoming, "orphan", detail, null);
  }

  async #putAside(
    incoming: Incoming,
    reason: "delay" | "ungoverned" | "orphan",
    detail: string,
    fireAt: Date | null,
  ): Promise<void> {
    try {
      await this.#options.settlements.park({
        envelope: incoming.envelope,
        reason,
        detail,
        owner: null,
        delayMs: 0,
        windowMs: null,
        parkedAt: null,
        fireAt,
      });
      incoming.delivery.ack();
    } catch (err) {
      this.#giveBack(incoming, err);
    }
  }

  /** Parks a message that this worker has no handler for. Never rejects. */
  async park(incoming: Incoming, detail: string): Promise<void> {
    const { settlements, logger, random, noHandlerWindowMs } = this.#options;
    const { envelope, delivery } = incoming;
    try {
      const parked = await settlements.park({
        envelope,
        reason: "no_handler",
        detail,
        owner: null,
        delayMs: noHandlerRoundMs / 2 + (random() * noHandlerRoundMs) / 2,
        windowMs: noHandlerWindowMs,
        parkedAt: incoming.parkedAt,
        fireAt: null,
      });
      if (!parked) {
        await this.#bury(incoming, statedFailure("no_handler", detail));
        return;
      }
      const { id: jobId, type: jobName, version, queue } = envelope;
      const fields = { jobId, jobName, version, queue };
      if (incoming.parkedAt === null) logger.warn(fields, "message parked, it has no handler here");
      else logger.debug(fields, "message parked again");
      if (envelope.slot !== null) await settlements.freeSlot({ ...envelope, parked: true });
      delivery.ack();
    } catch (err) {
      this.#giveBack(incoming, err);
    }
  }

  /** Dead-letters a message that cannot be read, bytes and all. Never rejects. */
  async reject(incoming: Incoming): Promise<void> {
    const { envelope } = incoming;
    if (!isUnreadable(envelope)) return;
    try {
      await this.#bury(incoming, statedFailure(envelope.failureClass, envelope.reason));
    } catch (err) {
      this.#giveBack(incoming, err);
    }
  }

  async #bury(incoming: Incoming, failure: Failure): Promise<void> {
    const { inFlight, bootId, logger } = this.#options;
    const { envelope, delivery, key } = incoming;
    const owner = bootId();
    if (owner === undefined) {
      delivery.requeue();
      return;
    }
    const isForged = failure.failureClass === "unauthentic";
    // The claim would take a job that runs here for an answer that was lost.
    if (inFlight.has(key)) {
      // What is put aside comes back with the relay's signature. The same bytes are on their way into
      // the dead letters, or their delivery goes back.
      if (isForged) delivery.ack();
      else await this.hold(incoming, owner);
      return;
    }
    inFlight.add(incoming);
    let buried: Buried;
    try {
      buried = await this.#addBurial({ incoming, owner, failure });
    } finally {
      // A copy that arrived meanwhile goes back; whoever gets it sees what became of the job.
      inFlight.remove(key)?.delivery.requeue();
    }
    if (buried.verdict === "held") {
      if (isForged) delivery.requeue();
      else await this.hold(incoming, buried.owner);
      return;
    }
    if (buried.verdict === "run") {
      logger.error(
        {
          jobId: envelope.id,
          jobName: envelope.type,
          queue: envelope.queue,
          failureClass: failure.failureClass,
          failureMessage: failure.message,
        },
        "message dead-lettered",
      );
    }
    delivery.ack();
  }

  async #addBurial(burial: Burial): Promise<Buried> {
    try {
      return await this.#burials.add(burial);
    } catch (error) {
      if (databaseErrorKind(error) !== "data") throw error;
      const { incoming } = burial;
      const envelope = plainEnvelope(incoming.envelope);
      return await this.#burials.add({ ...burial, incoming: { ...incoming, envelope } });
    }
  }

  /** Claims and fails in one transaction: no message is ever half dead. */
  async #buryAll(burials: readonly Burial[]): Promise<readonly Buried[]> {
    // Those of one batch have one owner, except around a new boot id.
    const owner = burials[0]?.owner ?? "";
    return await this.#options.database.transaction(async (store) => {
      const rows = await store.claim(
        owner,
        // Dead-lettered whatever the database knows: nothing of it can run.
        burials.map(({ incoming }) => ({ ...incoming.envelope, origin: null })),
      );
      const byKey = new Map(
        rows.map((row): [string, ClaimedRow] => [`${row.queue}\n${row.id}`, row]),
      );
      const dead = burials.flatMap(({ incoming, failure }) => {
        const row = byKey.get(incoming.key);
        if (row === undefined || verdictOf(row, owner) !== "run") return [];
        const { id, queue, token } = row;
        const envelope: Envelope = incoming.envelope;
        const slotted = envelope.slot !== null;
        const attempt = { id, queue, token, slotted, envelope, failure };
        return [{ ...attempt, retryDelayMs: undefined, attempted: false }];
      });
      if (dead.length > 0) await store.fail(dead);
      return burials.map(({ incoming }) => {
        const row = byKey.get(incoming.key);
        if (row === undefined)
          throw new Error(`The claim gave no row for ${incoming.envelope.id}.`);
        return { verdict: verdictOf(row, owner), owner: row.owner };
      });
    });
  }

  #giveBack({ envelope, delivery }: Incoming, err: unknown): void {
    const { logger, gate } = this.#options;
    if (gate.stopReason !== undefined) {
      delivery.requeue();
      return;
    }
    const { id: jobId, queue } = envelope;
    logger.error({ err, jobId, queue }, "message could not be put aside");
    // What the database will never take is safe in the dead-letter queue; requeued it would circle.
    if (databaseErrorKind(err) === "data") delivery.deadLetter();
    else delivery.requeue();
  }
}
