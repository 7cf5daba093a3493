/**
 * A channel bound to one connection generation: every call has a limit, its end is reported once
 * with its reason, and nothing ever moves over to a later channel.
 */

import type { Channel } from "amqplib";
import { BrokerUnavailableError } from "@waybill/core";
import { codeOf, textOf } from "./connection-errors.ts";
import type { Link } from "./link.ts";

/** Limit of one call on a channel, in milliseconds; while the broker blocks, it does not run. */
export const callTimeoutMs = 10_000;

/** Why a channel ended. */
export interface ChannelEnd {
  /** `local`: we closed it; `channel`: the broker closed it; `connection`: its link is gone. */
  readonly scope: "local" | "channel" | "connection";
  /** AMQP reply code, where the broker gave one. */
  readonly code: number | undefined;
  /** One cleaned sentence. */
  readonly reason: string;
}

/** An open channel. */
export interface BrokerChannel<C extends Channel = Channel> {
  /** amqplib's channel, for publish, ack and events. */
  readonly raw: C;
  /** Number of the connection that it belongs to; 1 is the first. */
  readonly generation: number;
  readonly isOpen: boolean;
  /** Calls back once, when the channel has ended; at once if it has already. */
  onEnd(listener: (end: ChannelEnd) => void): void;
  /**
   * Runs one call of the channel with a limit. A broker that does not answer in time loses the
   * whole connection, since nothing on it can be trusted any more.
   *
   * @param what the call in words, for the error: "declare queue x"
   */
  call<T>(what: string, run: (channel: C) => Promise<T>, timeoutMs?: number): Promise<T>;
  /** Closes it; never rejects and never hangs: without an answer the connection is given up. */
  close(timeoutMs?: number): Promise<void>;
}

/**
 * Waits for an answer of the broker for at most `timeoutMs`, not counting the time in which the
 * broker blocks the connection by an alarm; then fails the link and rejects.
 */
export async function within<T>(
  link: Link,
  what: string,
  timeoutMs: number,
  answer: Promise<T>,
): Promise<T> {
  const { promise: expired, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    timer = setTimeout(() => {
      if (link.open && link.blocked !== undefined) {
        arm();
        return;
      }
      const error = new BrokerUnavailableError(
        `Cannot ${what}: no answer from ${link.endpoint.display} within ${timeoutMs} ms. ` +
          `The connection is opened again; check the broker's load if this goes on.`,
        false,
      );
      link.fail(error);
      reject(error);
    }, timeoutMs);
  };
  arm();
  try {
    return await Promise.race([answer, expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** Takes charge of a channel that was just opened on `link`. */
export function adoptChannel<C extends Channel>(
  raw: C,
  link: Link,
  generation: number,
  onHandlerError: (error: Error) => void,
): BrokerChannel<C> {
  const listeners: ((end: ChannelEnd) => void)[] = [];
  let end: ChannelEnd | undefined;
  let error: unknown;
  let closing = false;
  let ended = false;
  const { promise: over, resolve: markOver } = Promise.withResolvers<void>();

  const finish = (): void => {
    if (end !== undefined) return;
    const scope = error !== undefined ? "channel" : closing && link.open ? "local" : "connection";
    const cause = error ?? link.error;
    const code = codeOf(cause);
    end = {
      scope,
      code: typeof code === "number" ? code : undefined,
      reason:
        scope === "local" ? "closed here" : cause === undefined ? "connection lost" : textOf(cause),
    };
    for (const listener of listeners.splice(0)) listener(end);
    markOver();
  };
  raw.on("error", (reason: Error) => {
    error ??= reason;
  });
  raw.on("handler-error", onHandlerError);
  raw.on("close", () => {
    ended = true;
    // amqplib closes the channels before it marks their connection as closed: a listener that
    // opens another channel must run after both.
    queueMicrotask(finish);
  });
  if (!link.open) {
    ended = true;
    finish();
  }

  let closed: Promise<void> | undefined;
  const closeOnce = async (timeoutMs: number): Promise<void> => {
    closing = true;
    try {
      // amqplib's own promise never settles where the connection ends before the answer.
      await within(link, "close a channel", timeoutMs, Promise.race([raw.close(), over]));
    } catch {
      // The channel or its connection ended first, or the link was failed: gone either way.
    }
  };

  return {
    raw,
    generation,
    get isOpen() {
      return !ended && !closing;
    },
    onEnd(listener) {
      if (end === undefined) listeners.push(listener);
      else listener(end);
    },
    async call(what, run, timeoutMs = callTimeoutMs) {
      if (ended || closing) {
        throw new BrokerUnavailableError(
          `Cannot ${what}: the channel has ended (${end?.reason ?? "closing"}). Open another one.`,
          false,
        );
      }
      return await within(link, what, timeoutMs, run(raw));
    },
    async close(timeoutMs = 3_000) {
      if (ended) return;
      // Who closes it a second time waits as well: a connection that is closed meanwhile would
      // overtake the last acks.
      closed ??= closeOnce(timeoutMs);
      await closed;
    },
  };
}
