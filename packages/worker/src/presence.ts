/**
 * The worker's presence: a row with a lease that a heartbeat renews, and a session lock that dies
 * with the connection, so that a killed worker's jobs start elsewhere at once. A boot id that lost
 * its lease is never alive again: others may have taken over what it ran. The worker then gets a
 * new one.
 *
 * The heartbeat is a thread of its own (`heartbeat-thread.ts`): handlers that keep this thread busy
 * do not cost the lease. That it has ended shows here without any message, by the clock and by the
 * memory that both threads share.
 */

import { hostname } from "node:os";
import { isMainThread } from "node:worker_threads";
import type { Logger } from "@waybill/core";
import { currentJob } from "./current-job.ts";
import { Heartbeat } from "./heartbeat.ts";
import {
  currentJobHook,
  type HeartbeatMessage,
  type HeartbeatSetup,
  type Pulse,
} from "./heartbeat-protocol.ts";
import { canInspect, isDebugged } from "./main-thread-inspection.ts";
import type { OwnDatabase } from "./own-database.ts";
import { within } from "./waiting.ts";

/** Time for the thread, and then for the pool, to remove the presence; in milliseconds. */
const retireMs = 1_000;

/** Options of {@link Presence}. */
export interface PresenceOptions {
  readonly database: OwnDatabase;
  readonly name: string;
  readonly version: string;
  readonly queues: readonly string[];
  readonly leaseMs: number;
  /** Time between two renewals of the lease. */
  readonly heartbeatMs: number;
  /** How long the worker holds a delivery; only to be shown. */
  readonly holdMs: number;
  /** Silence of the event loop after which it counts as blocked, in milliseconds. */
  readonly blockedWarnMs: number;
  /** Silence of the event loop after which the lease is let go, in milliseconds. */
  readonly blockedMaxMs: number;
  readonly logger: Logger;
  /** Jobs running now. */
  readonly running: () => number;
  /** Attempts finished so far. */
  readonly finished: () => number;
  /** `draining`: it takes no more jobs. */
  readonly state: () => "running" | "draining";
  /** The lease of this boot id is over: others may run what it ran. */
  readonly onLost: (bootId: string) => void;
  /** There is a boot id, the first or a new one. */
  readonly onAlive: (bootId: string) => void;
}

/** A boot id that is alive, and its number among those of its thread. */
interface Life {
  readonly number: number;
  readonly bootId: string;
}

/** See the head of the file. */
export class Presence {
  readonly #options: PresenceOptions;
  readonly #heartbeat: Heartbeat;
  #life: Life | undefined;
  #isRetired = false;
  #isStarted = false;
  #isStopping = false;

  constructor(options: PresenceOptions) {
    this.#options = options;
    this.#heartbeat = new Heartbeat({
      setup: setupOf(options),
      logger: options.logger,
      fill: (pulse) => this.#fill(pulse),
      onMessage: (message) => this.#onMessage(message),
      onTick: () => this.#checkLease(),
      onDeath: () => {
        const life = this.#life;
        this.#lose(life);
        return life?.bootId;
      },
    });
  }

  /**
   * Undefined while the worker must not claim. Looks at the clock each time: after a freeze no timer
   * and no message may have come yet.
   */
  get bootId(): string | undefined {
    const life = this.#life;
    if (life === undefined || !this.#isOver(life)) return life?.bootId;
    queueMicrotask(() => this.#lose(life));
    return undefined;
  }

  /** Begins; a boot id is announced as soon as the database answers. */
  start(): void {
    if (this.#isStarted) return;
    Object.defineProperty(globalThis, currentJobHook, { value: whoseCode, configurable: true });
    this.#heartbeat.start();
    this.#isStarted = true;
  }

  /** Removes the presence: what is still owned may be taken over at once. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const bootId = this.#life?.bootId;
    this.#life = undefined;
    await this.#heartbeat.stop(retireMs);
    if (bootId === undefined || this.#isRetired) return;
    // Without an answer the lease ends by itself.
    const retired = this.#options.database.store.retire(bootId).catch(() => undefined);
    await within(retireMs, retired);
  }

  #onMessage(message: HeartbeatMessage): void {
    const { logger, onAlive } = this.#options;
    if (this.#isStopping && message.kind !== "retired") return;
    switch (message.kind) {
      case "registered": {
        const { life: number, bootId, locked: sessionLock } = message;
        const life = { number, bootId };
        logger.info({ workerId: bootId, sessionLock }, "worker registered");
        this.#life = life;
        // The message may have waited for longer than the lease.
        if (this.#isOver(life)) this.#lose(life);
        else onAlive(bootId);
        return;
      }
      case "lost":
        if (this.#life?.number === message.life) this.#lose(this.#life);
        return;
      case "disconnected":
        logger.warn({ err: message.error }, "heartbeat connection lost");
        return;
      case "blocked": {
        const { report } = message;
        const isKnown = report.jobId !== undefined;
        logger.warn(report, isKnown ? "handler blocked the event loop" : "event loop blocked");
        return;
      }
      case "retired":
        this.#isRetired = true;
    }
  }

  #fill(pulse: Pulse): void {
    const { running, finished, state } = this.#options;
    pulse.set("running", running());
    pulse.set("finished", finished());
    pulse.set("draining", state() === "draining" ? 1 : 0);
    pulse.set("debugged", isDebugged() ? 1 : 0);
  }

  #checkLease(): void {
    if (this.#life !== undefined && this.#isOver(this.#life)) this.#lose(this.#life);
  }

  /** The lease counts from the moment the last renewal was sent, which is on the safe side. */
  #isOver({ number }: Life): boolean {
    return this.#heartbeat.pulse.isOver(number, this.#options.leaseMs);
  }

  #lose(life: Life | undefined): void {
    if (life === undefined || life !== this.#life) return;
    this.#life = undefined;
    this.#heartbeat.pulse.endLife(life.number);
    this.#heartbeat.nudge();
    this.#options.logger.error({ workerId: life.bootId }, "worker lease lost");
    this.#options.onLost(life.bootId);
  }
}

function setupOf(options: PresenceOptions): Omit<HeartbeatSetup, "memory" | "formerBootId"> {
  const { database, name, version, queues, leaseMs } = options;
  const { lock_worker, register_worker, renew_worker, retire_worker } = database.statements;
  return {
    config: database.sessionConfig,
    statements: { lock_worker, register_worker, renew_worker, retire_worker },
    ownSession: !database.pooled,
    name,
    host: hostname(),
    pid: process.pid,
    version,
    queues,
    holdMs: options.holdMs,
    leaseMs,
    heartbeatMs: options.heartbeatMs,
    blockedWarnMs: options.blockedWarnMs,
    blockedMaxMs: options.blockedMaxMs,
    inspectable: isMainThread && canInspect,
  };
}

/** What the inspector sees of the job whose code runs. */
function whoseCode(): { jobId: string; jobName: string } | undefined {
  const job = currentJob.getStore();
  return job === undefined ? undefined : { jobId: job.jobId, jobName: job.jobName };
}
