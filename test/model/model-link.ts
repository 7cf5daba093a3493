/**
 * A relay's connection to a model of RabbitMQ, under the relay's own publisher. The broker takes what is
 * written on a channel in order, each message with its fate, and confirms in any order, one at a time
 * or many at once. A message to an exchange that does not exist closes the channel; what had not been
 * taken by then, or when the link is lost, is lost; what was taken and not confirmed is there all the
 * same.
 */

import { EventEmitter } from "node:events";
import type { ConfirmChannel } from "amqplib";
import type {
  BrokerChannel,
  BrokerConnection,
  BrokerConnectionState,
  ChannelEnd,
} from "@waybill/rabbitmq";

/** What the broker does with a message that it takes. */
export type Fate = "ack" | "nack" | "return";

/** What a link tells of its messages, by messageId. */
export interface LinkLedger {
  /** True of messages to an exchange that does not exist. */
  readonly isPoison: (id: string) => boolean;
  readonly onWritten: (id: string) => void;
  /** It is in a queue now. */
  readonly onStored: (id: string) => void;
}

interface Sent {
  readonly sequence: number;
  readonly id: string;
  readonly exchange: string;
  readonly routingKey: string;
}

interface Publishing {
  readonly messageId: string;
}

class ModelChannel extends EventEmitter {
  readonly #ledger: LinkLedger;
  readonly #isFull: () => boolean;
  readonly #onEnd: ((end: ChannelEnd) => void)[] = [];
  #written: Sent[] = [];
  /** Taken and not confirmed, with what the confirm will say. */
  #taken: { readonly sequence: number; readonly isNack: boolean }[] = [];
  #next = 1;
  #ended: ChannelEnd | undefined;

  constructor(ledger: LinkLedger, isFull: () => boolean) {
    super();
    this.#ledger = ledger;
    this.#isFull = isFull;
  }

  get isOpen(): boolean {
    return this.#ended === undefined;
  }

  /** As amqplib's: false asks for a pause until "drain". */
  publish(
    exchange: string,
    routingKey: string,
    _content: Buffer,
    { messageId: id }: Publishing,
  ): boolean {
    if (!this.isOpen) throw new Error("a publish on a channel that has ended");
    this.#written.push({ sequence: this.#next++, id, exchange, routingKey });
    this.#ledger.onWritten(id);
    return !this.#isFull();
  }

  take(fates: readonly Fate[]): void {
    for (const fate of fates) {
      const sent = this.#written.shift();
      if (sent === undefined || !this.isOpen) return;
      const { id: messageId, sequence, exchange, routingKey } = sent;
      if (this.#ledger.isPoison(messageId)) {
        this.end({ scope: "channel", code: 404, reason: "NOT_FOUND - no exchange" });
        return;
      }
      if (fate === "ack") this.#ledger.onStored(messageId);
      this.#taken.push({ sequence, isNack: fate === "nack" });
      if (fate === "return") {
        this.emit("return", { fields: { exchange, routingKey }, properties: { messageId } });
      }
    }
  }

  /** Confirms one of what was taken; with `multiple` all before it too, as far as none is refused. */
  confirm(pick: number, multiple: boolean): void {
    const chosen = this.#taken[Math.min(pick, this.#taken.length - 1)];
    if (chosen === undefined) return;
    const { sequence, isNack } = chosen;
    const before = this.#taken.filter((each) => each.sequence < sequence);
    const nothingSkipped = before.every((each) => !each.isNack) && !isNack;
    // What lies before it and was not taken yet is none: messages are taken in order.
    const isMultiple = multiple && nothingSkipped;
    this.#taken = this.#taken.filter((each) =>
      isMultiple ? each.sequence > sequence : each !== chosen,
    );
    this.emit(isNack ? "nack" : "ack", { deliveryTag: sequence, multiple: isMultiple });
  }

  end(end: ChannelEnd): void {
    if (!this.isOpen) return;
    this.#ended = end;
    this.#written = [];
    this.#taken = [];
    for (const listener of this.#onEnd.splice(0)) listener(end);
  }

  adopted(generation: number): BrokerChannel<ConfirmChannel> {
    const isOpen = (): boolean => this.isOpen;
    return {
      raw: this as unknown as ConfirmChannel,
      generation,
      get isOpen() {
        return isOpen();
      },
      onEnd: (listener) => this.#onEnd.push(listener),
      call: () => Promise.reject(new Error("not in the model")),
      close: () => {
        this.end({ scope: "local", code: undefined, reason: "closed here" });
        return Promise.resolve();
      },
    };
  }
}

/** See the head of the file. */
export class ModelLink implements BrokerConnection {
  readonly name = "model";
  readonly lastError = undefined;
  readonly capabilities = undefined;
  generation = 1;
  state: BrokerConnectionState = "ready";
  /** True while the write buffer is full. */
  isFull = false;
  readonly #ledger: LinkLedger;
  #channel: ModelChannel | undefined;
  readonly #onState = new Set<(state: BrokerConnectionState) => void>();
  readonly #onReady = new Set<(generation: number) => void>();

  constructor(ledger: LinkLedger) {
    this.#ledger = ledger;
  }

  take(fates: readonly Fate[]): void {
    if (this.state === "ready") this.#channel?.take(fates);
  }

  confirm(pick: number, multiple: boolean): void {
    if (this.state === "ready") this.#channel?.confirm(pick, multiple);
  }

  /** The write buffer has room again. */
  drain(): void {
    this.isFull = false;
    this.#channel?.emit("drain");
  }

  /** The connection has gone, with everything that the broker had not taken. */
  lose(): void {
    if (this.state === "connecting" || this.state === "closed") return;
    this.#change("connecting");
    this.#channel?.end({ scope: "connection", code: 320, reason: "connection lost" });
    this.#channel = undefined;
  }

  connect(): void {
    if (this.state !== "connecting") return;
    this.generation += 1;
    this.#change("ready");
    for (const listener of this.#onReady) listener(this.generation);
  }

  /** An alarm of the broker: it reads nothing more. */
  block(isBlocked: boolean): void {
    if (this.state === "ready" || this.state === "blocked") {
      this.#change(isBlocked ? "blocked" : "ready");
    }
  }

  #change(state: BrokerConnectionState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.#onState) listener(state);
  }

  openConfirmChannel(): Promise<BrokerChannel<ConfirmChannel>> {
    if (this.state === "connecting" || this.state === "closed") {
      return Promise.reject(new Error("not connected"));
    }
    this.#channel = new ModelChannel(this.#ledger, () => this.isFull);
    return Promise.resolve(this.#channel.adopted(this.generation));
  }

  openChannel(): Promise<never> {
    return Promise.reject(new Error("not in the model"));
  }

  onStateChange(listener: (state: BrokerConnectionState) => void): () => void {
    this.#onState.add(listener);
    return () => this.#onState.delete(listener);
  }

  onReady(listener: (generation: number) => void): () => void {
    this.#onReady.add(listener);
    if (this.state === "ready") listener(this.generation);
    return () => this.#onReady.delete(listener);
  }

  ready(): Promise<void> {
    return Promise.resolve();
  }

  tryReady(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.lose();
    this.state = "closed";
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
