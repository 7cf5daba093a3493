/**
 * A queue and its dead-letter queue in a model of RabbitMQ: messages are delivered in any order, are
 * delivered again when the connection of their consumer ends, and may be doubled; none is lost that was
 * confirmed.
 */

import type { Message } from "./model-jobs.ts";

/** A message that a consumer has and has not settled. */
export class ModelDelivery {
  readonly message: Message;
  readonly #queue: ModelQueue;
  /** False once the connection that it came from has ended: settling it does nothing. */
  generationAlive = true;
  #isSettled = false;

  constructor(message: Message, queue: ModelQueue) {
    this.message = message;
    this.#queue = queue;
  }

  ack(): void {
    if (this.generationAlive) this.#isSettled = true;
  }

  requeue(): void {
    if (!this.generationAlive || this.#isSettled) return;
    this.#isSettled = true;
    this.#queue.ready.push(this.message);
  }

  /** The connection has ended. */
  lose(): void {
    this.requeue();
    this.generationAlive = false;
  }
}

/** See the head of the file. */
export class ModelQueue {
  readonly ready: Message[] = [];
  readonly dead: Message[] = [];

  /** Delivers one of the messages. */
  deliver(pick: number): ModelDelivery | undefined {
    const [message] = this.ready.splice(pick % Math.max(1, this.ready.length), 1);
    return message === undefined ? undefined : new ModelDelivery(message, this);
  }

  /** Somebody sends a message a second time. */
  double(pick: number): void {
    const message = this.ready[pick % Math.max(1, this.ready.length)];
    if (message !== undefined) this.ready.push(message);
  }

  /** An operator moves a dead letter back to its queue. */
  moveBack(pick: number): Message | undefined {
    const [message] = this.dead.splice(pick % Math.max(1, this.dead.length), 1);
    if (message !== undefined) this.ready.push(message);
    return message;
  }
}
