/**
 * What the flow of jobs is to this worker: its queues are declared at the start, their pauses shut the
 * doors, and their limits over all workers give it shares. One loop reads it all.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@waybill/core";
import type { FlowStore } from "@waybill/postgres";
import { declareQueues, type QueueDeclaration } from "./declared-queues.ts";
import type { QueueReason } from "./door.ts";
import { FlowView } from "./flow.ts";
import { databaseErrorKind } from "./own-database.ts";
import { Shares } from "./shares.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Options of {@link FlowControl}. */
export interface FlowControlOptions {
  readonly store: FlowStore;
  readonly queues: readonly WorkQueue[];
  readonly declarations: readonly QueueDeclaration[];
  /** Undefined while this worker has no presence. */
  readonly bootId: () => string | undefined;
  readonly logger: Logger;
  readonly random: () => number;
  /** Shuts a queue for a reason, or opens it where there is none. */
  readonly turn: (queue: WorkQueue, reason: QueueReason | undefined) => void;
  /** The number of a queue's slots has changed. */
  readonly onSlots: (queue: WorkQueue) => void;
}

/** See the head of the file. */
export class FlowControl {
  readonly view: FlowView;
  readonly #options: FlowControlOptions;
  readonly #shares: Shares;

  constructor(options: FlowControlOptions) {
    this.#options = options;
    const { store, queues, bootId, logger } = options;
    this.view = new FlowView({
      store,
      queues: queues.map(({ name }) => name),
      bootId,
      logger,
      onLook: () => this.#turnDoors(),
      onShares: async (worker, rows) => {
        const isAwaited = await this.#shares.settle(worker, rows);
        this.#turnDoors();
        return isAwaited;
      },
    });
    this.#shares = new Shares({
      store,
      queues,
      limitOf: (queue) => this.view.settings(queue).concurrency,
      onExcess: () => this.view.nudge(),
    });
    for (const queue of queues) queue.onLimitChange = () => options.onSlots(queue);
  }

  /**
   * Declares the queues and looks for the first time, waiting for the database as long as that can help.
   *
   * @throws the driver's error for anything else; the signal's reason
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { store, declarations, logger, random } = this.#options;
    for (let failures = 1; ; failures += 1) {
      try {
        await declareQueues(store, declarations, logger);
        await this.view.look();
        return;
      } catch (err) {
        signal.throwIfAborted();
        if (databaseErrorKind(err) === "data") throw err;
        logger.warn({ err }, "waiting for the database");
        const bound = Math.min(5_000, 100 * 2 ** Math.min(failures, 10));
        await delay(bound / 2 + (random() * bound) / 2, undefined, { signal });
      }
    }
  }

  /** Looks again and again; resolves when it is known what may be used of each queue. */
  async start(): Promise<void> {
    this.view.start();
    await this.#shares.settled;
  }

  /** The boot id was lost, or is another one: nothing is ours until it has shares of its own. */
  reset(): void {
    this.#shares.reset();
    this.view.nudge();
  }

  /** Looks no more. Never rejects. */
  async stop(): Promise<void> {
    await this.view.stop();
  }

  #turnDoors(): void {
    for (const queue of this.#options.queues) {
      const lacks = this.#shares.lacks(queue.name) ? "no share of the limit" : undefined;
      this.#options.turn(queue, this.view.shutReason(queue.name) ?? lacks);
    }
  }
}
