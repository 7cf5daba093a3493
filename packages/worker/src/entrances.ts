/** The ways into a worker: for each of its queues a consumer, a door before it, and a prefetch that adapts. */

import type { Logger } from "@waybill/core";
import {
  type BrokerConnection,
  type Consumer,
  createConsumer,
  type Delivery,
} from "@waybill/rabbitmq";
import { Door, type QueueReason, type ShutReason } from "./door.ts";
import { prefetchLookMs, prefetchOf, PrefetchTuner } from "./prefetch.ts";
import type { QueueStatus } from "./status.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Options of {@link Entrances}. */
export interface EntrancesOptions {
  readonly queues: readonly WorkQueue[];
  readonly connection: BrokerConnection;
  readonly logger: Logger;
  readonly random: () => number;
  readonly holdMs: number;
  /** Full name of a queue at the broker. */
  readonly queueName: (queue: string) => string;
}

/** See the head of the file. */
export class Entrances {
  readonly #options: EntrancesOptions;
  readonly #consumers: Consumer[] = [];
  readonly #doors: Door[] = [];
  readonly #tuners: PrefetchTuner[] = [];
  readonly #shut = new Set<ShutReason>();
  /** Why single queues are shut. */
  readonly #shutQueues = new Map<string, QueueReason>();
  #looking: NodeJS.Timeout | undefined;

  constructor(options: EntrancesOptions) {
    this.#options = options;
  }

  /**
   * Consumes every queue, as far as the doors allow.
   *
   * @param receiverOf takes a queue's deliveries
   * @param ensureQueue called where a queue does not exist
   */
  start(
    receiverOf: (queue: WorkQueue) => (delivery: Delivery) => void,
    ensureQueue: (() => Promise<void>) | undefined,
  ): void {
    const { queues, connection, logger, random, holdMs, queueName } = this.#options;
    for (const queue of queues) {
      const consumer = createConsumer({
        connection,
        queue: queueName(queue.name),
        prefetch: prefetchOf(queue.limit),
        logger,
        random,
        onDelivery: receiverOf(queue),
        ...(ensureQueue === undefined ? {} : { ensureQueue }),
      });
      const door = new Door(consumer);
      this.#consumers.push(consumer);
      this.#doors.push(door);
      this.#tuners.push(new PrefetchTuner(queue, consumer, door, holdMs));
      for (const reason of this.#shut) void door.shut(reason);
      const reason = this.#shutQueues.get(queue.name);
      if (reason !== undefined) void door.shut(reason);
    }
    this.#looking = setInterval(() => {
      for (const tuner of this.#tuners) tuner.look(performance.now());
      // What came back to a queue after it was shut: a copy that was kept, a claim without an answer.
      for (const queue of queues) if (queue.isShut) giveBack(queue);
    }, prefetchLookMs);
  }

  /** Shuts one queue for a reason, or opens it where there is none. */
  turn(queue: WorkQueue, reason: QueueReason | undefined): void {
    const { name } = queue;
    const before = this.#shutQueues.get(name);
    if (before === reason) return;
    const door = this.#doors[this.#options.queues.indexOf(queue)];
    if (reason === undefined) this.#shutQueues.delete(name);
    else this.#shutQueues.set(name, reason);
    queue.setShut(reason !== undefined);
    if (reason !== undefined) {
      void door?.shut(reason);
      giveBack(queue);
    }
    if (before !== undefined) door?.open(before);
  }

  /** Follows a change of a queue's slots. */
  refit(queue: WorkQueue): void {
    this.#tuners[this.#options.queues.indexOf(queue)]?.refit();
  }

  /** Takes nothing more, and gives back what waits. Resolves when the broker has stopped. */
  async shut(reason: ShutReason): Promise<void> {
    this.#shut.add(reason);
    const shut = this.#doors.map((door) => door.shut(reason));
    this.giveBack();
    await Promise.all(shut);
    this.giveBack();
  }

  open(reason: ShutReason): void {
    if (!this.#shut.delete(reason)) return;
    for (const door of this.#doors) door.open(reason);
  }

  /** Gives back what waits for a slot. */
  giveBack(): void {
    for (const queue of this.#options.queues) giveBack(queue);
  }

  /** Sends the last acks; what is not settled goes back to the queues. */
  async close(): Promise<void> {
    clearInterval(this.#looking);
    await Promise.all(this.#consumers.map((consumer) => consumer.close()));
  }

  status(): readonly QueueStatus[] {
    return this.#options.queues.map((queue, index): QueueStatus => {
      const health = this.#consumers[index]?.health();
      return {
        queue: queue.name,
        concurrency: queue.concurrency,
        share: Number.isFinite(queue.gate) ? queue.gate : undefined,
        running: queue.busy,
        waiting: queue.waiting,
        consumer: health?.state ?? "waiting",
        reason: health === undefined ? "not connected yet" : health.reason,
      };
    });
  }
}

function giveBack(queue: WorkQueue): void {
  for (const { delivery } of queue.takeAll()) delivery.requeue();
}
