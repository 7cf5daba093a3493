/**
 * The heartbeat as the main thread sees it: starts its thread, starts another one when that has
 * died, and shows it that the event loop turns.
 */

import { Worker } from "node:worker_threads";
import type { Logger } from "@waybill/core";
import {
  type HeartbeatMessage,
  type HeartbeatOrder,
  type HeartbeatSetup,
  Pulse,
  sharedNow,
} from "./heartbeat-protocol.ts";
import { within } from "./waiting.ts";

/** A thread without a sign of life for so long is given up, in milliseconds. */
const silenceMaxMs = 30_000;

/** From the sources in development, from what the compiler made of them otherwise. */
const threadFile = new URL(
  import.meta.url.endsWith(".ts") ? "./heartbeat-thread.ts" : "./heartbeat-thread.js",
  import.meta.url,
);

/** Options of {@link Heartbeat}. */
export interface HeartbeatOptions {
  readonly setup: Omit<HeartbeatSetup, "memory" | "formerBootId">;
  readonly logger: Logger;
  /** Writes what there is to tell. */
  readonly fill: (pulse: Pulse) => void;
  readonly onMessage: (message: HeartbeatMessage) => void;
  /** Called at every turn of the loop that the timer sees. */
  readonly onTick: () => void;
  /** The thread has died, another one follows. Tells the boot id that died with it. */
  readonly onDeath: () => string | undefined;
}

/** See the head of the file. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #thread: Worker | undefined;
  #pulse = new Pulse();
  #exited = Promise.resolve();
  #failures = 0;
  #isStopped = false;
  #ticking: NodeJS.Timeout | undefined;
  #restart: NodeJS.Timeout | undefined;
  /** The thread's last sign of life, and when this thread saw it. */
  #looks = 0;
  #heardAt = 0;
  #tickedAt = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** What both threads see of the thread that lives now. */
  get pulse(): Pulse {
    return this.#pulse;
  }

  /** @throws if a thread cannot be started at all */
  start(): void {
    const { blockedWarnMs, leaseMs } = this.#options.setup;
    this.#startThread(undefined);
    const tickMs = Math.max(10, Math.min(200, blockedWarnMs / 5, leaseMs / 10));
    this.#ticking = setInterval(() => this.#tick(), tickMs);
  }

  /** Makes the thread look at the memory now. */
  nudge(): void {
    this.#order({ kind: "look" });
  }

  /** Asks the thread to end, and ends it if it does not within `milliseconds`. Never rejects. */
  async stop(milliseconds: number): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#ticking);
    clearTimeout(this.#restart);
    // From here on somebody waits for it.
    this.#thread?.ref();
    this.#order({ kind: "stop" });
    await within(milliseconds, this.#exited);
    // One that is stuck in the system is not waited for.
    this.#thread?.unref();
    void this.#thread?.terminate();
  }

  #startThread(formerBootId: string | undefined): void {
    const { setup, logger, onMessage } = this.#options;
    const pulse = new Pulse();
    const workerData: HeartbeatSetup = { ...setup, memory: pulse.memory, formerBootId };
    const thread = new Worker(threadFile, { name: "waybill-heartbeat", workerData });
    // It alone never keeps a process alive.
    thread.unref();
    this.#thread = thread;
    this.#pulse = pulse;
    this.#heardAt = sharedNow();
    this.#beat();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#exited = promise;
    thread.on("message", (message: HeartbeatMessage) => {
      if (message.kind === "registered") this.#failures = 0;
      onMessage(message);
    });
    thread.on("error", (err) => logger.error({ err }, "heartbeat thread failed"));
    thread.once("exit", () => {
      this.#thread = undefined;
      resolve();
      if (this.#isStopped) return;
      this.#startAgain(this.#options.onDeath() ?? formerBootId);
    });
  }

  #startAgain(formerBootId: string | undefined): void {
    const { logger } = this.#options;
    const waitMs = Math.min(5_000, 100 * 2 ** Math.min(this.#failures, 6));
    this.#failures += 1;
    logger.warn({ waitMs }, "heartbeat thread ended");
    this.#restart = setTimeout(() => {
      try {
        this.#startThread(formerBootId);
      } catch (err) {
        logger.error({ err }, "heartbeat thread failed");
        this.#startAgain(formerBootId);
      }
    }, waitMs);
  }

  #tick(): void {
    const now = sharedNow();
    this.#options.onTick();
    this.#beat();
    const looks = this.#pulse.get("looks");
    // Who was away cannot tell who else was silent.
    if (looks !== this.#looks || now - this.#tickedAt > 1_000) this.#heardAt = now;
    this.#looks = looks;
    this.#tickedAt = now;
    const isStuck = now - this.#heardAt > Math.max(silenceMaxMs, this.#options.setup.leaseMs);
    if (isStuck) void this.#thread?.terminate();
  }

  #beat(): void {
    this.#options.fill(this.#pulse);
    this.#pulse.count("turns");
  }

  #order(order: HeartbeatOrder): void {
    this.#thread?.postMessage(order);
  }
}
