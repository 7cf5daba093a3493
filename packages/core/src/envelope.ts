/**
 * The envelope: how a row of the outbox travels as an AMQP message. Encoding lives here; decoding,
 * which also has to read what other producers send, in decode.ts.
 *
 * Headers are `waybill-*`, never `x-*`, which belong to the broker. Nothing here depends on the
 * broker's or the database's library.
 */

/** What a row of the outbox or of the timers carries. */
export interface Dispatch {
  readonly id: string;
  readonly kind: "job" | "event" | "dead_letter" | "route";
  /** 1 for the first, one more for each later dispatch of the same job. */
  readonly dispatch: number;
  /** Null for events and routes. */
  readonly queue: string | null;
  readonly type: string;
  readonly version: number;
  readonly exchange: string | null;
  readonly routingKey: string | null;
  readonly payload: string;
  readonly payloadBase64: boolean;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly priority: number | null;
  readonly orderingKey: string | null;
  readonly correlationId: string | null;
  readonly expiresAt: Date | null;
  readonly enqueuedAt: Date;
  /** Schema that the job's slot lies in, of jobs of governed queues. */
  readonly slot?: string | undefined;
  /** The database that it is published from, in its present life. */
  readonly origin?: string | undefined;
}

/** Names of the exchanges and queues that an envelope is addressed to. */
export interface TopologyNames {
  readonly jobsExchange: string;
  readonly dlxExchange: string;
  readonly eventsExchange: string;
  queueName(queue: string): string;
  deadLetterQueueName(queue: string): string;
}

/** Names under a prefix; `waybill` by default. */
export function topologyNames(prefix = "waybill"): TopologyNames {
  return {
    jobsExchange: `${prefix}.jobs`,
    dlxExchange: `${prefix}.dlx`,
    eventsExchange: `${prefix}.events`,
    queueName: (queue) => `${prefix}.${queue}`,
    deadLetterQueueName: (queue) => `${prefix}.${queue}.dlq`,
  };
}

/** Headers that Waybill writes itself; an application cannot set them. */
export const waybillHeaders = {
  dispatch: "waybill-dispatch",
  version: "waybill-version",
  orderingKey: "waybill-ordering-key",
  expiresAt: "waybill-expires-at",
  /** Milliseconds since 1970: the property timestamp has whole seconds only. */
  enqueuedAt: "waybill-enqueued-at",
  /** The whole range of Waybill's priorities, of which the property holds 0 to 9. */
  priority: "waybill-priority",
  /** Event to publish when the job ends. */
  onTerminal: "waybill-on-terminal",
  /** Concurrency key: limits and fair shares of governed queues are by it. */
  concurrencyKey: "waybill-concurrency-key",
  /** Of a message that was dispatched in a slot: the schema that the slot lies in. */
  slot: "waybill-slot",
  /** Database that the message was published from, another one after a restore or a failover. */
  origin: "waybill-origin",
  queue: "waybill-queue",
  death: "waybill-death",
  error: "waybill-error",
  errorClass: "waybill-error-class",
  attempts: "waybill-attempts",
  failedAt: "waybill-failed-at",
  /** By the relay, where it has keys to sign with. */
  signature: "waybill-signature",
} as const;

/** A message ready to be published. Numbers in headers are to be sent as int64. */
export interface OutgoingEnvelope {
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Buffer;
  readonly messageId: string;
  readonly type: string;
  readonly timestampSeconds: number;
  readonly correlationId: string | undefined;
  readonly contentType: string | undefined;
  readonly priority: number | undefined;
  readonly headers: Readonly<Record<string, string | number>>;
}

function addressOf(row: Dispatch, names: TopologyNames): { exchange: string; routingKey: string } {
  switch (row.kind) {
    case "job":
      // The first dispatch goes through the topic exchange, where an operator can bind to it; later
      // ones go to their queue alone, so that the retry of one subscription never reaches another.
      return row.dispatch === 1
        ? { exchange: names.jobsExchange, routingKey: row.queue ?? "" }
        : { exchange: "", routingKey: names.queueName(row.queue ?? "") };
    case "dead_letter":
      return { exchange: names.dlxExchange, routingKey: row.queue ?? "" };
    case "event":
      return { exchange: names.eventsExchange, routingKey: row.type };
    case "route":
      return { exchange: row.exchange ?? "", routingKey: row.routingKey ?? "" };
  }
}

/** Encodes a row for the broker. The payload's bytes are forwarded as they are. */
export function encodeEnvelope(row: Dispatch, names: TopologyNames): OutgoingEnvelope {
  const headers: Record<string, string | number> = Object.assign(Object.create(null), row.headers);
  if (row.kind !== "route") {
    headers[waybillHeaders.dispatch] = row.dispatch;
    headers[waybillHeaders.version] = row.version;
    headers[waybillHeaders.enqueuedAt] = row.enqueuedAt.getTime();
    if (row.orderingKey !== null) headers[waybillHeaders.orderingKey] = row.orderingKey;
    if (row.expiresAt !== null) headers[waybillHeaders.expiresAt] = row.expiresAt.getTime();
    if (row.priority !== null) headers[waybillHeaders.priority] = row.priority;
    if (row.slot !== undefined) headers[waybillHeaders.slot] = row.slot;
    if (row.origin !== undefined) headers[waybillHeaders.origin] = row.origin;
  }
  // Broker priorities reach from 0 to 255; Waybill's integers are wider and live in the database.
  const priority = row.priority === null ? undefined : Math.min(9, Math.max(0, row.priority));
  return {
    ...addressOf(row, names),
    content: Buffer.from(row.payload, row.payloadBase64 ? "base64" : "utf8"),
    messageId: row.id,
    type: row.type,
    timestampSeconds: Math.floor(row.enqueuedAt.getTime() / 1_000),
    correlationId: row.correlationId ?? undefined,
    contentType: row.payloadBase64 ? "application/octet-stream" : "application/json",
    priority,
    headers,
  };
}

/** An AMQP message as the broker's package hands it over: plain values, bounded. */
export interface IncomingMessage {
  /** Queue it was consumed from, without the prefix. */
  readonly queue: string;
  readonly content: Buffer;
  readonly messageId: string | undefined;
  readonly type: string | undefined;
  readonly correlationId: string | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** As sent: seconds, or milliseconds from producers that err. */
  readonly timestamp: number | undefined;
  readonly priority: number | undefined;
  readonly redelivered: boolean;
  /** Null prototype; strings, numbers, booleans, null, arrays and objects of such. */
  readonly headers: Readonly<Record<string, unknown>>;
}

/** What is known of a message after decoding: the identity of a job and its payload. */
export interface Envelope {
  readonly id: string;
  /** `given` ids are the message's; `derived` ones a UUIDv5 of it; `fresh` ones cannot be recognised again. */
  readonly idSource: "given" | "derived" | "fresh";
  readonly queue: string;
  readonly type: string;
  readonly version: number;
  /** 1 for foreign messages. */
  readonly dispatch: number;
  /** The death that this message is the dead letter of; 0 for none. */
  readonly death: number;
  readonly priority: number | null;
  readonly orderingKey: string | null;
  readonly correlationId: string | null;
  readonly enqueuedAt: Date;
  readonly expiresAt: Date | null;
  /** Earliest start that a foreign format asks for (Celery's eta), in the future; else null. */
  readonly runAt: Date | null;
  /** Event to publish when the job ends; null for none, and for foreign messages. */
  readonly onTerminal: string | null;
  /** Concurrency key; null for none, and for foreign messages. */
  readonly concurrencyKey: string | null;
  /** Schema that the job's slot lies in; null where it was dispatched without one. */
  readonly slot: string | null;
  /** The database that published it, in its life then; null for foreign messages. */
  readonly origin: string | null;
  /** Headers of the application, strings only; nothing of Waybill's or the broker's. */
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: string;
  readonly payloadBase64: boolean;
}

/** A message that cannot be read, or not be believed: its bytes are kept, with the reason. */
export interface UnreadableEnvelope extends Envelope {
  readonly failureClass: "undecodable" | "no_handler" | "unauthentic";
  readonly reason: string;
}
