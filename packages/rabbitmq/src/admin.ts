import type { BrokerConnection } from "./connection.ts";
import { codeOf } from "./connection-errors.ts";

/** What a passive declare tells of a queue. */
export interface QueueDepth {
  /** Messages ready for delivery; those held by consumers do not count. */
  readonly messages: number;
  readonly consumers: number;
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
  const channel = await connection.openChannel();
  try {
    const { messageCount, consumerCount } = await channel.call(`look at queue "${queue}"`, (raw) =>
      raw.checkQueue(queue),
    );
    return { messages: messageCount, consumers: consumerCount };
  } catch (error) {
    if (codeOf(error) === 404) return undefined;
    throw error;
  } finally {
    await channel.close();
  }
}
