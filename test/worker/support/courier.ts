import { connect, type ChannelModel, type ConfirmChannel } from "amqplib";
import { encodeEnvelope, type Dispatch, topologyNames } from "@waybill/core";
import { eventually, type TestDatabase } from "../../support/index.ts";

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
  /** Rounds until the end. */
  start(options?: { readonly hurry?: boolean }): void;
  /** Takes a message off a queue, or undefined. */
  take(queue: string): Promise<TakenMessage | undefined>;
  /** Waits for a message in a queue and takes it. */
  next(queue: string): Promise<TakenMessage>;
  /** Messages that are ready in a queue. */
  depth(queue: string): Promise<number>;
}

/** A message as it lay in a queue. */
export interface TakenMessage {
  readonly content: Buffer;
  readonly headers: Record<string, unknown>;
  readonly properties: Record<string, unknown>;
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
  // Not the highest one: rows become visible in the order of their commits.
  const published = new Set<string>();
  const stop = new AbortController();
  let loop: Promise<void> | undefined;

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
      `with due as (delete from waybill.timer where case reason
           when 'unroutable' then false
           when 'lease' then not waybill.worker_alive(owner)
           else fire_at <= ${now ? "'infinity'" : "clock_timestamp()"}
         end returning *)
       insert into waybill.outbox (queue, ${columns})
       select nullif(queue, ''), ${columns} from due`,
    );
    const rows = await database.rows<OutboxRow>(
      `select seq, queue, ${columns} from waybill.outbox where seq <> all ($1::bigint[]) order by seq`,
      [[...published]],
    );
    for (const row of rows) {
      published.add(row.seq);
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

  const take = async (queue: string): Promise<TakenMessage | undefined> => {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return undefined;
    const { headers, ...properties } = message.properties;
    return {
      content: message.content,
      headers: headers ?? {},
      properties,
    };
  };

  return {
    dispatch,
    round,
    publish: ({ exchange = "", routingKey, content, properties = {} }) =>
      send(exchange, routingKey, Buffer.from(content), properties),
    start({ hurry = false } = {}) {
      loop ??= (async () => {
        while (!stop.signal.aborted) {
          // A test may stop the database: the courier comes back when it does.
          await round(hurry).catch(() => undefined);
          await new Promise((resolve) => setTimeout(resolve, 15));
        }
      })();
    },
    take,
    next: (queue) =>
      eventually(async () => {
        const message = await take(queue);
        // eventually takes undefined for a success.
        return message ?? null;
      }),
    depth: async (queue) => (await channel.checkQueue(queue)).messageCount,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loop;
      await model.close().catch(() => undefined);
    },
  };
}
