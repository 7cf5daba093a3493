/** What the tests of the broker's package share. */

import type { Logger } from "@waybill/core";
import { silentLogger } from "@waybill/core";
import {
  applyTopology,
  type BrokerChannel,
  type BrokerConnection,
  createBrokerConnection,
  createConsumer,
  createPublisher,
  type Consumer,
  type ConsumerOptions,
  type Delivery,
  type OutgoingMessage,
  type Publisher,
  type PublisherOptions,
  type PublishOutcome,
  type Topology,
  topologyOf,
} from "@waybill/rabbitmq";

import { eventually } from "../support/index.ts";

/** Connects and waits until it is ready; closed at the end of the test. */
export async function connected(url: string, logger = silentLogger): Promise<BrokerConnection> {
  const connection = createBrokerConnection({ url, name: "waybill-test", logger });
  await connection.ready(AbortSignal.timeout(15_000));
  return connection;
}

/** Declares the topology of these queues and returns it. */
export async function declared(
  connection: BrokerConnection,
  prefix: string,
  queues: readonly string[],
): Promise<Topology> {
  const topology = topologyOf({ prefix, queues });
  const report = await applyTopology(connection, topology, "assert");
  if (!report.ok) throw new Error(JSON.stringify(report.results));
  return topology;
}

/** Runs one call of amqplib on a channel of its own. */
export async function onChannel<T>(
  connection: BrokerConnection,
  run: (channel: BrokerChannel["raw"]) => Promise<T>,
): Promise<T> {
  const channel = await connection.openChannel();
  try {
    return await channel.call("run a test's call", run);
  } finally {
    await channel.close();
  }
}

/** Removes a topology where the virtual host is shared. */
export async function removed(connection: BrokerConnection, topology: Topology): Promise<void> {
  await connection.ready(AbortSignal.timeout(15_000));
  for (const { name } of topology.queues) {
    await onChannel(connection, (channel) => channel.deleteQueue(name));
  }
  for (const { name } of topology.exchanges) {
    await onChannel(connection, (channel) => channel.deleteExchange(name));
  }
}

/** A message to publish; its key is its id. */
export function message(
  id: string,
  exchange: string,
  routingKey: string,
  body = "{}",
): OutgoingMessage<string> {
  return {
    key: id,
    exchange,
    routingKey,
    content: Buffer.from(body),
    properties: { messageId: id, type: "test", headers: { "waybill-dispatch": 1 } },
  };
}

/** A publisher that remembers every outcome. */
export interface RecordingPublisher extends Publisher<string> {
  /** All outcomes by key; more than one entry in a list is a fault. */
  readonly outcomes: ReadonlyMap<string, readonly PublishOutcome[]>;
  /** The keys with this outcome, in the order of the outcomes. */
  withStatus(status: PublishOutcome["status"]): readonly string[];
  /** Waits for the one outcome of a key. */
  outcomeOf(key: string): Promise<PublishOutcome>;
  /** Publishes as fast as the window allows. */
  publishAll(messages: readonly OutgoingMessage<string>[]): Promise<void>;
}

/** Creates a {@link RecordingPublisher}. */
export function recordingPublisher(
  connection: BrokerConnection,
  options: Partial<PublisherOptions<string>> = {},
): RecordingPublisher {
  const outcomes = new Map<string, PublishOutcome[]>();
  const publisher = createPublisher<string>({
    connection,
    logger: silentLogger,
    ...options,
    onSettled({ key }, outcome) {
      outcomes.set(key, [...(outcomes.get(key) ?? []), outcome]);
    },
  });
  return {
    get outstanding() {
      return publisher.outstanding;
    },
    publish: (each) => publisher.publish(each),
    capacity: () => publisher.capacity(),
    idle: () => publisher.idle(),
    close: (timeoutMs) => publisher.close(timeoutMs),
    [Symbol.asyncDispose]: () => publisher.close(),
    outcomes,
    withStatus: (status) =>
      [...outcomes].filter(([, list]) => list[0]?.status === status).map(([key]) => key),
    async outcomeOf(key) {
      const list = await eventually(() => outcomes.get(key) ?? false);
      const [first] = list;
      if (first === undefined || list.length > 1)
        throw new Error(`${key}: ${list.length} outcomes`);
      return first;
    },
    async publishAll(messages) {
      for (const each of messages) {
        while (publisher.capacity() !== undefined) await publisher.capacity();
        publisher.publish(each);
      }
    },
  };
}

/** A consumer that holds what it receives. */
export interface HoldingConsumer extends AsyncDisposable {
  readonly consumer: Consumer;
  /** Every delivery so far, oldest first. */
  readonly deliveries: readonly Delivery[];
  readonly states: readonly string[];
  /** Waits until this many deliveries have come. */
  received(count: number): Promise<readonly Delivery[]>;
}

/** Creates a {@link HoldingConsumer}. */
export function holdingConsumer(
  connection: BrokerConnection,
  queue: string,
  options: Partial<ConsumerOptions> = {},
): HoldingConsumer {
  const deliveries: Delivery[] = [];
  const states: string[] = [];
  const consumer = createConsumer({
    connection,
    queue,
    prefetch: 100,
    logger: silentLogger,
    onDelivery: (delivery) => deliveries.push(delivery),
    // A new reason for the same state is no transition.
    onStateChange: (state) => {
      if (state !== states.at(-1)) states.push(state);
    },
    ...options,
  });
  return {
    consumer,
    deliveries,
    states,
    received: async (count) => await eventually(() => deliveries.length >= count && deliveries),
    [Symbol.asyncDispose]: () => consumer.close(),
  };
}

/** Id of a delivery's message. */
export const idOf = (delivery: Delivery): string => String(delivery.message.properties.messageId);

/** A logger that keeps the lines of info and above as text. */
export function recordingLogger(): { readonly logger: Logger; readonly lines: readonly string[] } {
  const lines: string[] = [];
  const write =
    (level: string) =>
    (fields: object, text: string): void => {
      const shown = JSON.stringify(fields, (_name, value: unknown) =>
        value instanceof Error ? `${value.message} ${String(value.cause)}` : value,
      );
      lines.push(`${level} ${text} ${shown}`);
    };
  const logger: Logger = {
    child: () => logger,
    debug: () => undefined,
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
  };
  return { logger, lines };
}
