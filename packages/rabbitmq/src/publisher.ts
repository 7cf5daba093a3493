/**
 * Publishes with confirms on one channel. Every message ends in exactly one outcome:
 *
 * - written, confirmed and not returned: `confirmed`; confirmed but returned before: `returned`;
 * - the broker took no responsibility: `nacked`;
 * - this very message can never be published: `refused`. Found by a check before, or, when the
 *   broker closes the channel, by sending what was on its way again one message at a time: the one
 *   that closes the channel again is refused, the others go on;
 * - the link was lost, or no answer came in time: `unknown`. The broker may have it; publish again.
 *
 * Nothing is queued in memory beyond the window: ask {@link Publisher.capacity} before publishing.
 */

import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { type ConfirmChannel, IllegalOperationError } from "amqplib";
import type { Logger } from "@waybill/core";
import type { BrokerChannel, ChannelEnd } from "./channel.ts";
import { textOf } from "./connection-errors.ts";
import type { BrokerConnection } from "./connection.ts";
import { type OutgoingMessage, type PreparedMessage, prepareMessage } from "./outgoing-message.ts";
import { type InFlight, PublishWindow } from "./publish-window.ts";

/** How a message ended; see {@link createPublisher}. `reason` is one sentence for people. */
export type PublishOutcome =
  | { readonly status: "confirmed" }
  | {
      readonly status: "returned" | "nacked" | "refused" | "unknown";
      readonly reason: string;
    };

/** Options of {@link createPublisher}. */
export interface PublisherOptions<Key = unknown> {
  /** Its own: an alarm of the broker blocks everything on a connection that publishes. */
  readonly connection: BrokerConnection;
  readonly logger: Logger;
  /** Messages without outcome at a time. @default 2000 */
  readonly windowMessages?: number | undefined;
  /** Bytes without outcome at a time. @default 16777216 */
  readonly windowBytes?: number | undefined;
  /**
   * Limit of the wait for a confirm, in milliseconds, not counting alarms of the broker.
   * @default 10000
   */
  readonly confirmTimeoutMs?: number | undefined;
  /** Called once per message, never inside {@link Publisher.publish}. Must not throw. */
  readonly onSettled: (message: OutgoingMessage<Key>, outcome: PublishOutcome) => void;
}

/** A publisher; see {@link createPublisher}. */
export interface Publisher<Key = unknown> {
  /** Messages without outcome. */
  readonly outstanding: number;
  /** Writes a message. Without a channel, or after close, its outcome is `unknown` at once. */
  publish(message: OutgoingMessage<Key>): void;
  /**
   * Undefined if there is room now; otherwise resolves, never rejects, when there is again: window
   * below three quarters, write buffer drained, broker not blocking, channel open. After
   * {@link close} it resolves too.
   */
  capacity(): Promise<void> | undefined;
  /** Resolves when no message is without outcome. */
  idle(): Promise<void>;
  /**
   * Takes no more messages, waits for outcomes for at most `timeoutMs` (5000; not at all while the
   * broker blocks), and calls the rest `unknown`. Never rejects. Does not close the connection.
   */
  close(timeoutMs?: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Reply codes that one message of ours can cause. Others say nothing about the message. */
const messageCodes = new Set([311, 312, 313, 403, 404, 405, 406, 501, 502, 503, 505, 541]);

const nackReason =
  "the broker did not take it (basic.nack): a queue is at its length limit or not available";

class ConfirmPublisher<Key> implements Publisher<Key> {
  readonly #connection: BrokerConnection;
  readonly #logger: Logger;
  readonly #windowMessages: number;
  readonly #windowBytes: number;
  readonly #confirmTimeoutMs: number;
  readonly #onSettled: PublisherOptions<Key>["onSettled"];
  readonly #window = new PublishWindow<Key>();
  #channel: BrokerChannel<ConfirmChannel> | undefined;
  #opening = false;
  #closed = false;
  #needsDrain = false;
  /** Messages to send again one at a time, oldest last so that taking one is cheap. */
  #replay: PreparedMessage<Key>[] = [];
  #replaySinceMs = 0;
  /** Outcomes that are decided but not told yet. */
  #pendingOutcomes = 0;
  /** Time spent blocked does not count towards the confirm timeout. */
  #countFromMs = 0;
  #room: PromiseWithResolvers<void> | undefined;
  #idle: PromiseWithResolvers<void> | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: readonly (() => void)[];

  constructor(options: PublisherOptions<Key>) {
    this.#connection = options.connection;
    this.#logger = options.logger;
    this.#windowMessages = options.windowMessages ?? 2_000;
    this.#windowBytes = options.windowBytes ?? 16 * 1024 * 1024;
    this.#confirmTimeoutMs = options.confirmTimeoutMs ?? 10_000;
    this.#onSettled = options.onSettled;
    const interval = Math.max(20, Math.min(1_000, this.#confirmTimeoutMs / 4));
    this.#timer = setInterval(() => this.#checkTimeout(), interval);
    this.#timer.unref();
    this.#unsubscribe = [
      this.#connection.onStateChange(() => {
        this.#countFromMs = performance.now();
        this.#changed();
      }),
      this.#connection.onReady(() => this.#open()),
    ];
  }

  get outstanding(): number {
    return this.#window.size + this.#replay.length + this.#pendingOutcomes;
  }

  publish(message: OutgoingMessage<Key>): void {
    const prepared = prepareMessage(message);
    if (typeof prepared === "string") {
      this.#settleLater(message, { status: "refused", reason: prepared });
    } else if (this.#closed) {
      this.#settleLater(message, { status: "unknown", reason: "the publisher is closed" });
    } else if (this.#replay.length > 0 || this.#replaying()) {
      this.#replay.unshift(prepared);
    } else {
      this.#send(prepared);
    }
  }

  #replaying(): boolean {
    return this.#replaySinceMs > 0;
  }

  #send(prepared: PreparedMessage<Key>): void {
    const { message, options } = prepared;
    const channel = this.#channel;
    if (channel === undefined) {
      this.#settleLater(message, { status: "unknown", reason: "not connected" });
      return;
    }
    try {
      const room = channel.raw.publish(
        message.exchange,
        message.routingKey,
        message.content,
        options,
      );
      // Counted only now: amqplib encodes before it writes, so a throw means "not sent".
      this.#window.add(prepared, performance.now());
      if (!room) this.#needsDrain = true;
    } catch (error) {
      const status = error instanceof IllegalOperationError ? "unknown" : "refused";
      this.#settleLater(message, { status, reason: textOf(error) });
    }
  }

  #settle(message: OutgoingMessage<Key>, outcome: PublishOutcome): void {
    try {
      this.#onSettled(message, outcome);
    } catch (err) {
      this.#logger.error({ err }, "publish outcome handler failed");
    }
  }

  #settleLater(message: OutgoingMessage<Key>, outcome: PublishOutcome): void {
    this.#pendingOutcomes += 1;
    queueMicrotask(() => {
      this.#pendingOutcomes -= 1;
      this.#settle(message, outcome);
      this.#changed();
    });
  }

  #open(): void {
    if (this.#opening || this.#closed || this.#channel !== undefined) return;
    this.#opening = true;
    void this.#openChannel().finally(() => {
      this.#opening = false;
    });
  }

  async #openChannel(): Promise<void> {
    for (;;) {
      // The connection learns of its own end a moment after its channels do.
      await nextTurn();
      try {
        const channel = await this.#connection.openConfirmChannel();
        if (this.#closed) {
          await channel.close();
          return;
        }
        this.#adopt(channel);
        return;
      } catch (err) {
        const { state } = this.#connection;
        if (this.#closed || state === "connecting" || state === "closed") return;
        this.#logger.warn({ err }, "publish channel could not be opened");
        await delay(250);
      }
    }
  }

  #adopt(channel: BrokerChannel<ConfirmChannel>): void {
    this.#channel = channel;
    this.#needsDrain = false;
    const confirm = (sequence: number, multiple: boolean, nacked: boolean): void => {
      for (const entry of this.#window.settle(sequence, multiple)) this.#confirmed(entry, nacked);
      this.#changed();
    };
    channel.raw.on("ack", ({ deliveryTag, multiple }) => confirm(deliveryTag, multiple, false));
    channel.raw.on("nack", ({ deliveryTag, multiple }) => confirm(deliveryTag, multiple, true));
    channel.raw.on("return", ({ fields, properties }) => {
      const { exchange, routingKey } = fields;
      const messageId: unknown = properties.messageId;
      const reason =
        `no queue is bound to exchange "${exchange}" for routing key "${routingKey}" ` +
        `(the broker returned it)`;
      this.#window.markReturned({ messageId, exchange, routingKey }, reason);
    });
    channel.raw.on("drain", () => {
      if (this.#channel !== channel) return;
      this.#needsDrain = false;
      this.#changed();
    });
    channel.onEnd((end) => this.#ended(channel, end));
    this.#changed();
  }

  #confirmed(entry: InFlight<Key>, nacked: boolean): void {
    const { message } = entry.prepared;
    if (entry.returned !== undefined) {
      this.#settle(message, { status: "returned", reason: entry.returned });
    } else if (nacked) {
      this.#settle(message, { status: "nacked", reason: nackReason });
    } else {
      this.#settle(message, { status: "confirmed" });
    }
  }

  #ended(channel: BrokerChannel<ConfirmChannel>, end: ChannelEnd): void {
    if (this.#channel !== channel) return;
    this.#channel = undefined;
    this.#needsDrain = false;
    const inFlight = this.#window.reset();
    const causedByMessage =
      !this.#closed &&
      end.scope !== "local" &&
      end.code !== undefined &&
      messageCodes.has(end.code);
    if (!causedByMessage) {
      this.#giveUp(inFlight, end.reason);
    } else if (inFlight.length === 1 && (end.scope === "channel" || this.#replaying())) {
      // Alone on its channel: this is the one.
      for (const { prepared } of inFlight) {
        this.#logger.warn(
          { messageId: prepared.message.properties.messageId, reason: end.reason },
          "broker refused a message",
        );
        this.#settle(prepared.message, { status: "refused", reason: end.reason });
      }
    } else {
      this.#logger.warn(
        { messages: inFlight.length, reason: end.reason },
        "broker closed the publish channel, sending one at a time",
      );
      this.#replay.push(...inFlight.map(({ prepared }) => prepared).toReversed());
      this.#replaySinceMs = performance.now();
    }
    this.#changed();
    this.#open();
  }

  /** Everything on its way or waiting to be replayed has an unknown outcome now. */
  #giveUp(inFlight: readonly InFlight<Key>[], reason: string): void {
    const waiting = this.#replay.toReversed();
    this.#replay = [];
    this.#replaySinceMs = 0;
    for (const { prepared } of inFlight) {
      this.#settle(prepared.message, { status: "unknown", reason });
    }
    for (const prepared of waiting) this.#settle(prepared.message, { status: "unknown", reason });
    if (inFlight.length + waiting.length > 0) {
      this.#logger.warn(
        { messages: inFlight.length + waiting.length, reason },
        "publishes without confirm",
      );
    }
  }

  /** Sends the next replayed message once the one before it has its outcome. */
  #pumpReplay(): void {
    if (!this.#replaying() || this.#channel === undefined || this.#window.size > 0) return;
    const next = this.#replay.pop();
    if (next === undefined) {
      this.#replaySinceMs = 0;
      this.#logger.info({}, "publishing at full speed again");
      return;
    }
    this.#replaySinceMs = performance.now();
    this.#send(next);
  }

  #checkTimeout(): void {
    if (this.#connection.state === "blocked") return;
    const since = this.#window.oldestSentAtMs() ?? this.#replaySinceMs;
    if (since === 0) return;
    if (performance.now() - Math.max(since, this.#countFromMs) < this.#confirmTimeoutMs) return;
    const channel = this.#channel;
    this.#channel = undefined;
    this.#giveUp(this.#window.reset(), `no confirm within ${this.#confirmTimeoutMs} ms`);
    // A broker that does not answer the close either loses the connection with it.
    void channel?.close();
    this.#changed();
    this.#open();
  }

  #hasRoom(share: number): boolean {
    return (
      this.#channel !== undefined &&
      this.#connection.state === "ready" &&
      !this.#needsDrain &&
      !this.#replaying() &&
      this.#window.size < this.#windowMessages * share &&
      this.#window.bytes < this.#windowBytes * share
    );
  }

  capacity(): Promise<void> | undefined {
    if (this.#hasRoom(1)) return undefined;
    if (this.#closed) return Promise.resolve();
    this.#room ??= Promise.withResolvers<void>();
    return this.#room.promise;
  }

  idle(): Promise<void> {
    if (this.outstanding === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers<void>();
    return this.#idle.promise;
  }

  /** Looks after everyone who waits; called after every change. */
  #changed(): void {
    this.#pumpReplay();
    if (this.#room !== undefined && (this.#closed || this.#hasRoom(0.75))) {
      this.#room.resolve();
      this.#room = undefined;
    }
    if (this.#idle !== undefined && this.outstanding === 0) {
      this.#idle.resolve();
      this.#idle = undefined;
    }
  }

  async close(timeoutMs = 5_000): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#changed();
    if (this.outstanding > 0 && this.#connection.state === "ready") {
      const timer = new AbortController();
      const timeout = delay(timeoutMs, undefined, { signal: timer.signal }).catch(() => undefined);
      await Promise.race([this.idle(), timeout]);
      timer.abort();
    }
    clearInterval(this.#timer);
    for (const stop of this.#unsubscribe) stop();
    const channel = this.#channel;
    this.#channel = undefined;
    this.#giveUp(this.#window.reset(), "the publisher was closed before the confirm came");
    this.#changed();
    if (this.#connection.state !== "blocked") {
      // The goodbye has its own time: a channel that is not given any takes the connection along.
      await channel?.close(Math.min(Math.max(timeoutMs, 1_000), 3_000));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Creates a publisher on a connection. It opens its channel again by itself after every loss.
 */
export function createPublisher<Key = unknown>(options: PublisherOptions<Key>): Publisher<Key> {
  return new ConfirmPublisher(options);
}
