/**
 * One channel with one consumer, from `basic.consume` until the last delivery it holds is settled.
 * A session never comes back: after a loss, a cancel or a pause the next one has a new channel, and
 * a settlement that arrives late finds its own channel closed and does nothing.
 */

import type { ConsumeMessage } from "amqplib";
import type { Logger } from "@waybill/core";
import type { BrokerChannel } from "./channel.ts";
import { type Settlement, SettleLedger } from "./settle-ledger.ts";

/** One received message. Each is settled once; later calls and calls after its channel do nothing. */
export interface Delivery {
  readonly message: ConsumeMessage;
  /** Queue it came from, its full name at the broker. */
  readonly queue: string;
  /** A hint of the broker, nothing to count with. */
  readonly redelivered: boolean;
  /** False once its channel has ended: the broker gives the message to another consumer. */
  readonly generationAlive: boolean;
  /** Done. True if this call settled it. */
  ack(): boolean;
  /** Back to the queue, at once and to anyone. True if this call settled it. */
  requeue(): boolean;
  /** To the queue's dead-letter exchange. True if this call settled it. */
  deadLetter(): boolean;
}

/** Settlements that had no effect, for metrics. */
export interface SettleCounts {
  /** Of deliveries whose channel had ended. */
  late: number;
  /** Of deliveries settled before. */
  repeated: number;
}

class SessionDelivery implements Delivery {
  readonly message: ConsumeMessage;
  readonly #session: ConsumeSession;

  constructor(session: ConsumeSession, message: ConsumeMessage) {
    this.#session = session;
    this.message = message;
  }

  get queue(): string {
    return this.#session.queue;
  }

  get redelivered(): boolean {
    return this.message.fields.redelivered;
  }

  get generationAlive(): boolean {
    return this.#session.alive;
  }

  ack(): boolean {
    return this.#session.settle(this.message.fields.deliveryTag, "ack");
  }

  requeue(): boolean {
    return this.#session.settle(this.message.fields.deliveryTag, "requeue");
  }

  deadLetter(): boolean {
    return this.#session.settle(this.message.fields.deliveryTag, "deadLetter");
  }
}

/** Why a session stopped receiving. */
export interface SessionEnd {
  /** `cancelled`: the broker ended the consumer; `channel`: the channel or its link is gone. */
  readonly kind: "cancelled" | "channel";
  readonly reason: string;
}

/** Options of {@link ConsumeSession}. */
export interface ConsumeSessionOptions {
  readonly channel: BrokerChannel;
  readonly queue: string;
  readonly prefetch: number;
  readonly logger: Logger;
  readonly counts: SettleCounts;
  readonly onDelivery: (delivery: Delivery) => void;
}

/** See the head of the file. */
export class ConsumeSession {
  readonly queue: string;
  readonly prefetch: number;
  /** Resolves, never rejects, when no further delivery will come, except after {@link stop}. */
  readonly ended: Promise<SessionEnd>;
  readonly #channel: BrokerChannel;
  readonly #logger: Logger;
  readonly #counts: SettleCounts;
  readonly #onDelivery: (delivery: Delivery) => void;
  readonly #ledger = new SettleLedger();
  readonly #end: (end: SessionEnd) => void;
  #starting: Promise<void> | undefined;
  #consumerTag: string | undefined;
  #lastMs = performance.now();
  #stopped: Promise<void> | undefined;
  #draining = false;
  #flushing = false;

  constructor(options: ConsumeSessionOptions) {
    this.queue = options.queue;
    this.prefetch = options.prefetch;
    this.#channel = options.channel;
    this.#logger = options.logger;
    this.#counts = options.counts;
    this.#onDelivery = options.onDelivery;
    const { promise, resolve } = Promise.withResolvers<SessionEnd>();
    this.ended = promise;
    this.#end = resolve;
    options.channel.onEnd(({ reason }) => resolve({ kind: "channel", reason }));
  }

  get alive(): boolean {
    return this.#channel.isOpen;
  }

  /** Milliseconds since the last delivery, or since the start, though there was room; 0: there is none. */
  get idleMs(): number {
    return this.unsettled < this.prefetch ? performance.now() - this.#lastMs : 0;
  }

  /** Deliveries held and not settled; those of an ended channel are not held any more. */
  get unsettled(): number {
    return this.alive ? this.#ledger.unsettled : 0;
  }

  /**
   * Begins to consume; resolves when the broker has said so.
   *
   * @throws the broker's refusal (404: no such queue), or BrokerUnavailableError
   */
  start(consumerTag: string | undefined): Promise<void> {
    this.#starting = this.#begin(consumerTag);
    return this.#starting;
  }

  async #begin(consumerTag: string | undefined): Promise<void> {
    await this.#channel.call("set the prefetch", (raw) => raw.prefetch(this.prefetch));
    const { consumerTag: tag } = await this.#channel.call(`consume "${this.queue}"`, (raw) =>
      raw.consume(
        this.queue,
        (message) => this.#receive(message),
        consumerTag === undefined ? {} : { consumerTag },
      ),
    );
    this.#consumerTag = tag;
  }

  /**
   * Receives no more; what is held can still be settled, and the channel closes after the last.
   * Resolves when the broker has confirmed it, or the channel is gone. Twice is legal.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#cancel();
    return this.#stopped;
  }

  async #cancel(): Promise<void> {
    // The first delivery may be here before the consumer's tag is: without it nothing can be cancelled.
    await this.#starting?.catch(() => undefined);
    const tag = this.#consumerTag;
    if (tag !== undefined && this.alive) {
      await this.#channel
        .call(`cancel the consumer of "${this.queue}"`, (raw) => raw.cancel(tag))
        .catch(() => undefined);
    }
    this.#draining = true;
    this.#closeIfDrained();
  }

  /** Calls back once, when nothing of this session can be settled any more. */
  onChannelEnd(listener: () => void): void {
    this.#channel.onEnd(listener);
  }

  /** Sends what is settled and closes the channel: the broker takes the rest back. */
  async close(timeoutMs: number): Promise<void> {
    this.#flush();
    await this.#channel.close(timeoutMs);
  }

  #receive(message: ConsumeMessage | null): void {
    if (message === null) {
      this.#consumerTag = undefined;
      this.#draining = true;
      this.#end({ kind: "cancelled", reason: "the broker cancelled the consumer" });
      this.#closeIfDrained();
      return;
    }
    this.#lastMs = performance.now();
    this.#ledger.delivered(message.fields.deliveryTag);
    const delivery = new SessionDelivery(this, message);
    try {
      this.#onDelivery(delivery);
    } catch (err) {
      // Thrown on, it would make amqplib close the channel and bring every other delivery back.
      this.#logger.error({ err, queue: this.queue }, "delivery handler failed");
      delivery.requeue();
    }
  }

  /** Settles a delivery of this session; called by the delivery only. */
  settle(tag: number, settlement: Settlement): boolean {
    if (!this.alive) {
      this.#counts.late += 1;
      return false;
    }
    if (!this.#ledger.settle(tag, settlement)) {
      this.#counts.repeated += 1;
      return false;
    }
    if (!this.#flushing) {
      this.#flushing = true;
      // Everything settled in this turn of the event loop shares its frames.
      setImmediate(() => this.#flush());
    }
    return true;
  }

  #flush(): void {
    this.#flushing = false;
    if (!this.alive) return;
    const { raw } = this.#channel;
    try {
      for (const frame of this.#ledger.flush()) {
        // amqplib asks for the message but reads the tag alone.
        const message = { fields: { deliveryTag: frame.tag } } as ConsumeMessage;
        if (frame.kind === "ack") raw.ack(message, frame.multiple);
        else raw.nack(message, false, frame.requeue);
      }
    } catch (err) {
      // The channel ended between the look and the write: the broker has taken everything back.
      this.#logger.debug({ err, queue: this.queue }, "settlement after the channel's end");
    }
    this.#closeIfDrained();
  }

  #closeIfDrained(): void {
    if (this.#draining && !this.#flushing && this.#ledger.unsettled === 0 && this.alive) {
      void this.#channel.close();
    }
  }
}
