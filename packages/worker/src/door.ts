import type { Consumer } from "@waybill/rabbitmq";
import type { QueueShutReason } from "./flow.ts";

/** Why a queue's deliveries are not wanted. */
export type ShutReason =
  | "database unavailable"
  | "worker draining"
  | "worker stopping"
  | "slots taken"
  | QueueReason;

/** Why the deliveries of one queue are not wanted, whatever the others'. */
export type QueueReason = QueueShutReason | "no share of the limit";

/** The way in from one queue: open while nothing speaks against it. */
export class Door {
  readonly #consumer: Pick<Consumer, "pause" | "resume">;
  readonly #reasons = new Set<ShutReason>();

  constructor(consumer: Pick<Consumer, "pause" | "resume">) {
    this.#consumer = consumer;
  }

  get isOpen(): boolean {
    return this.#reasons.size === 0;
  }

  /** Resolves when the broker sends no more. */
  async shut(reason: ShutReason): Promise<void> {
    this.#reasons.add(reason);
    await this.#consumer.pause(reason, reason === "slots taken");
  }

  open(reason: ShutReason): void {
    if (!this.#reasons.delete(reason)) return;
    const [left] = this.#reasons;
    if (left === undefined) this.#consumer.resume();
    // It shows the reason that is left.
    else void this.#consumer.pause(left, left === "slots taken");
  }
}
