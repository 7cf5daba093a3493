/**
 * What the flow of jobs is to this worker: its queues are declared at the start, their pauses shut the
 * doors, and their limits over all workers give it shares. One loop reads it all.
 */

import { dependsOnOf, type Logger } from "@waybill/core";
import { declareQueues } from "./declared-queues.ts";
import { declareDependencies, DependencyOutcomes } from "./dependencies.ts";
import type { QueueReason } from "./door.ts";
import { FlowView } from "./flow.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import { databaseErrorKind, type OwnDatabase } from "./own-database.ts";
import type { Registry } from "./registry.ts";
import { Shares } from "./shares.ts";
import { waitForDatabase } from "./start-database.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Options of {@link FlowControl}. */
export interface FlowControlOptions {
  readonly options: Pick<ResolvedWorkerOptions, "dependencies" | "queues" | "schema">;
  readonly ownDatabase: Pick<OwnDatabase, "flow" | "pool" | "pooled">;
  readonly registry: Pick<Registry<never>, "dependenciesOf" | "subscriptions">;
  readonly queues: readonly WorkQueue[];
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
  /** How attempts that depend on something have ended, on the way into the database. */
  readonly outcomes: DependencyOutcomes;
  readonly #options: FlowControlOptions;
  readonly #shares: Shares;

  constructor(options: FlowControlOptions) {
    this.#options = options;
    const { ownDatabase: database, queues, bootId, logger } = options;
    const { schema } = options.options;
    const store = database.flow;
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
    this.outcomes = new DependencyOutcomes({
      database,
      schema,
      logger,
      dependsOn: (queue, type) => dependsOnOf(this.view.settings(queue), type),
    });
    for (const queue of queues) queue.onLimitChange = () => options.onSlots(queue);
  }

  /**
   * Declares dependencies and queues and looks for the first time, waiting for the database as long as that can help.
   *
   * @throws the driver's error for anything else; the signal's reason
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { options, ownDatabase: database, registry, queues, logger, random } = this.#options;
    const declarations = queues.map(({ name: queue }) => ({
      queue,
      definition: options.queues[queue]?.define,
      dependencies: registry.dependenciesOf(queue),
    }));
    const subscriptions = registry.subscriptions.map(({ subscription: queue, events }) => ({
      queue,
      events,
    }));
    for (let failures = 1; ; failures += 1) {
      try {
        await declareDependencies(options.dependencies, database, options.schema, logger);
        await declareQueues(database.flow, declarations, logger);
        // After their bindings: an event from before may never have come.
        if (subscriptions.length > 0) await database.flow.subscribe(subscriptions);
        await this.view.look();
        return;
      } catch (err) {
        signal.throwIfAborted();
        if (databaseErrorKind(err) === "data") throw err;
        await waitForDatabase(err, failures, { logger, random }, signal);
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

  /** Looks no more, and tells the last outcomes. Never rejects. */
  async stop(): Promise<void> {
    await Promise.all([this.view.stop(), this.outcomes.flush()]);
  }

  #turnDoors(): void {
    for (const queue of this.#options.queues) {
      const lacks = this.#shares.lacks(queue.name) ? "no share of the limit" : undefined;
      this.#options.turn(queue, this.view.shutReason(queue.name) ?? lacks);
    }
  }
}
