import { connect, type ChannelModel, type ConfirmChannel } from "amqplib";
import { encodeEnvelope, type Dispatch, topologyNames } from "@waybill/core";
import type { TestDatabase } from "../../support/index.ts";

/**
 * What a worker needs of a relay, and nothing else: due timers move to the outbox, and rows of the
 * outbox are published, once each. Tests of the worker hold it, hurry it and look at it.
 */
export interface Courier extends AsyncDisposable {
  /** Publishes a message as it is, bytes and all. */
  publish(message: {
    readonly exchange?: string;
    readonly routingKey: string;
    readonly content: string | Buffer;
    readonly properties?: Record<string, unknown>;
  }): Promise<void>;
  /** Publishes a row as the relay does. */
  dispatch(row: Partial<Dispatch> & { readonly id: string; readonly type: string }): Promise<void>;
  /** Moves what is due, or with `now` everything that waits, and publishes the outbox. */
  round(now?: boolean): Promise<number>;
  /** Rounds until stopped. */
  start(options?: { readonly hurry?: boolean }): void;
  stop(): Promise<void>;
  /** Takes a message off a queue, or undefined. */
  take(queue: string): Promise<
    | {
        readonly content: Buffer;
        readonly headers: Record<string, unknown>;
        readonly properties: Record<string, unknown>;
      }
    | undefined
  >;
  /** Messages that are ready in a queue. */
  depth(queue: string): Promise<number>;
}

interface OutboxRow {
  readonly seq: string;
  readonly id: string;
  readonly kind: Dispatch["kind"];
  readonly dispatch: number;
  readonly queue: string | null;
  readonly type: string;
  readonly version: number;
  readonly exchange: string | null;
  readonly routing_key: string | null;
  readonly payload: string;
  readonly payload_base64: boolean;
  readonly headers: Record<string, string> | null;
  readonly priority: number | null;
  readonly ordering_key: string | null;
  readonly correlation_id: string | null;
  readonly expires_at: Date | null;
  readonly enqueued_at: Date;
}

const columns =
  "id, kind, dispatch, type, version, exchange, routing_key, payload, payload_base64, headers, priority, ordering_key, correlation_id, expires_at, enqueued_at";

const empty = {
  kind: "job",
  dispatch: 1,
  queue: null,
  version: 1,
  exchange: null,
  routingKey: null,
  payload: "{}",
  payloadBase64: false,
  headers: null,
  priority: null,
  orderingKey: null,
  correlationId: null,
  expiresAt: null,
} as const;

/** Connects a courier to a database and a virtual host. */
export async function createCourier(
  database: TestDatabase,
  brokerUrl: string,
  prefix = "waybill",
): Promise<Courier> {
  const names = topologyNames(prefix);
  const model: ChannelModel = await connect(brokerUrl);
  model.on("error", () => undefined);
  const channel: ConfirmChannel = await model.createConfirmChannel();
  channel.on("error", () => undefined);
  let published = 0n;
  let loop: Promise<void> | undefined;
  let stopped = false;

  const send = async (
    exchange: string,
    routingKey: string,
    content: Buffer,
    properties: Record<string, unknown>,
  ): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    channel.publish(
      exchange,
      routingKey,
      content,
      { persistent: true, ...properties },
      (error: unknown) => (error === null || error === undefined ? resolve() : reject(error)),
    );
    await promise;
  };

  const dispatch: Courier["dispatch"] = async (partial) => {
    const row: Dispatch = { ...empty, enqueuedAt: new Date(), ...partial };
    const { exchange, routingKey, content, ...envelope } = encodeEnvelope(row, names);
    await send(exchange, routingKey, content, {
      messageId: envelope.messageId,
      type: envelope.type,
      timestamp: envelope.timestampSeconds,
      correlationId: envelope.correlationId,
      contentType: envelope.contentType,
      priority: envelope.priority,
      headers: envelope.headers,
    });
  };

  const round = async (now = false): Promise<number> => {
    const moved = await database.pool.query(
      `with due as (delete from waybill.timer where fire_at <= ${now ? "'infinity'" : "clock_timestamp()"} and reason <> 'unroutable' returning *)
       insert into waybill.outbox (queue, ${columns})
       select nullif(queue, ''), ${columns} from due`,
    );
    const rows = await database.rows<OutboxRow>(
      `select seq, queue, ${columns} from waybill.outbox where seq > $1 order by seq`,
      [published.toString()],
    );
    for (const row of rows) {
      published = BigInt(row.seq);
      await dispatch({
        ...row,
        routingKey: row.routing_key,
        payloadBase64: row.payload_base64,
        orderingKey: row.ordering_key,
        correlationId: row.correlation_id,
        expiresAt: row.expires_at,
        enqueuedAt: row.enqueued_at,
      });
    }
    return rows.length + (moved.rowCount ?? 0);
  };

  return {
    dispatch,
    round,
    publish: ({ exchange = "", routingKey, content, properties = {} }) =>
      send(exchange, routingKey, Buffer.from(content), properties),
    start({ hurry = false } = {}) {
      stopped = false;
      loop ??= (async () => {
        while (!stopped) {
          // A test may stop the database: the courier comes back when it does.
          await round(hurry).catch(() => undefined);
          await new Promise((resolve) => setTimeout(resolve, 15));
        }
        loop = undefined;
      })();
    },
    async stop() {
      stopped = true;
      await loop;
    },
    async take(queue) {
      const message = await channel.get(queue, { noAck: true });
      if (message === false) return undefined;
      const { headers, ...properties } = message.properties;
      return {
        content: message.content,
        headers: (headers ?? {}) as Record<string, unknown>,
        properties: properties as Record<string, unknown>,
      };
    },
    depth: async (queue) => (await channel.checkQueue(queue)).messageCount,
    async [Symbol.asyncDispose]() {
      stopped = true;
      await loop;
      await model.close().catch(() => undefined);
    },
  };
}
