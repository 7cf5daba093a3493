import type { Channel } from "amqplib";
import type { BrokerConnection } from "./connection.ts";
import { codeOf } from "./connection-errors.ts";

/** The broker says that this user may not. */
const isRefusal = (error: unknown): boolean => codeOf(error) === 403 || codeOf(error) === 405;

/** What a passive declare tells of a queue. */
export interface QueueDepth {
  /** Messages ready for delivery; those held by consumers do not count. */
  readonly messages: number;
  readonly consumers: number;
}

/** Runs one call on a channel of its own, since the broker closes the channel of one that fails. */
async function callOnce<T>(
  connection: BrokerConnection,
  what: string,
  run: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await connection.openChannel();
  try {
    return await channel.call(what, run);
  } finally {
    await channel.close();
  }
}

/**
 * A queue's depth, without the management API.
 *
 * @returns undefined if the queue does not exist
 * @throws BrokerUnavailableError without a connection; the broker's error if the user may not look
 */
export async function queueDepth(
  connection: BrokerConnection,
  queue: string,
): Promise<QueueDepth | undefined> {
  try {
    const { messageCount, consumerCount } = await callOnce(
      connection,
      `look at queue "${queue}"`,
      (raw) => raw.checkQueue(queue),
    );
    return { messages: messageCount, consumers: consumerCount };
  } catch (error) {
    if (codeOf(error) === 404) return undefined;
    throw error;
  }
}

/**
 * Whether a queue has no message ready; one that does not exist has none.
 *
 * @returns undefined if this user may not look
 * @throws BrokerUnavailableError without a connection
 */
export async function isQueueEmpty(
  connection: BrokerConnection,
  queue: string,
): Promise<boolean | undefined> {
  try {
    const depth = await queueDepth(connection, queue);
    return depth === undefined || depth.messages === 0;
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/**
 * Whether an exchange is there.
 *
 * @returns undefined if this user may not look
 * @throws BrokerUnavailableError without a connection
 */
export async function exchangeExists(
  connection: BrokerConnection,
  name: string,
): Promise<boolean | undefined> {
  try {
    await callOnce(connection, `look at exchange "${name}"`, (raw) => raw.checkExchange(name));
    return true;
  } catch (error) {
    if (codeOf(error) === 404) return false;
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/**
 * Declares an exchange that nothing is ever published to: it is there as long as what the broker has
 * stored is.
 *
 * @returns false if this user may not
 * @throws BrokerUnavailableError without a connection
 */
export async function declareMarker(connection: BrokerConnection, name: string): Promise<boolean> {
  try {
    await callOnce(connection, `declare exchange "${name}"`, (raw) =>
      raw.assertExchange(name, "fanout", { durable: true }),
    );
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}
