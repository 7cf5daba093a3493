/**
 * Checks and encodes a message before it is written. One bad message closes the channel and takes
 * the confirms of its neighbours along, so whatever can be known before is refused here.
 */

import type { Options } from "amqplib";

/** Properties of a message. Text is at most 255 bytes of UTF-8 each. */
export interface OutgoingProperties {
  readonly messageId: string;
  readonly type: string;
  readonly correlationId?: string | undefined;
  /** Whole seconds since 1970. */
  readonly timestamp?: number | undefined;
  readonly appId?: string | undefined;
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  /** 0 to 255. */
  readonly priority?: number | undefined;
  /**
   * Strings, numbers, bigints, booleans, null, bytes, arrays and plain objects; 60 KiB in all.
   * Whole numbers are sent as int64, others as double.
   */
  readonly headers: Readonly<Record<string, unknown>>;
}

/** A message to publish. */
export interface OutgoingMessage<Key = unknown> {
  /** The caller's own handle; comes back with the outcome. */
  readonly key: Key;
  /** Empty for the default exchange. */
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Buffer;
  readonly properties: OutgoingProperties;
}

/** Limit of all headers of a message together, in encoded bytes: amqplib's buffer ends at 64 KiB. */
export const headerBytesMax: number = 60 * 1024;

/** Limit of a body, in bytes: the default of RabbitMQ 4. */
export const contentBytesMax: number = 16 * 1024 * 1024;

const headerDepthMax = 16;

/**
 * Headers that the broker itself reads or writes. A forged `x-death` crashes the queue's process
 * on 3.10 when the message is rejected later.
 */
const reservedHeader =
  /^(?:CC|BCC|x-death|x-delivery-count|x-acquired-count|x-(?:first|last)-death-.*|x-opt-.*)$/i;

/** A reason, thrown inside this file only. */
class Refusal extends Error {}

function checkText(name: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string") throw new Refusal(`${name} is not a text`);
  // Most texts are short enough to be sure without counting bytes.
  if (value.length > 85 && Buffer.byteLength(value) > 255) {
    throw new Refusal(`${name} has more than 255 bytes`);
  }
  if (!value.isWellFormed()) throw new Refusal(`${name} holds half a surrogate pair`);
}

interface Encoded {
  readonly value: unknown;
  readonly bytes: number;
}

function encodeNumber(value: number): Encoded {
  if (Number.isSafeInteger(value)) {
    // One tag for all whole numbers: amqplib would choose by size, and readers would see the type
    // of a header change with its value.
    return { value: { "!": "int64", value }, bytes: 9 };
  }
  if (!Number.isFinite(value)) throw new Refusal(`a header holds ${value}`);
  return { value: { "!": "double", value }, bytes: 9 };
}

function encodeValue(name: string, value: unknown, depth: number): Encoded {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new Refusal(`header ${name} holds half a surrogate pair`);
      return { value, bytes: 5 + Buffer.byteLength(value) };
    case "number":
      return encodeNumber(value);
    case "bigint":
      if (BigInt.asIntN(64, value) !== value) throw new Refusal(`header ${name} is beyond int64`);
      return { value: { "!": "int64", value }, bytes: 9 };
    case "boolean":
      return { value, bytes: 2 };
    case "object": {
      if (value === null) return { value, bytes: 1 };
      if (depth > headerDepthMax) {
        throw new Refusal(`header ${name} nests deeper than ${headerDepthMax}`);
      }
      if (value instanceof Uint8Array) {
        const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
        return { value: bytes, bytes: 5 + bytes.length };
      }
      if (Array.isArray(value)) {
        const items = value.map((item: unknown) => encodeValue(name, item, depth + 1));
        return {
          value: items.map((item) => item.value),
          bytes: items.reduce((sum, item) => sum + item.bytes, 5),
        };
      }
      // A Date or a Map would silently arrive as an empty table.
      const prototype: unknown = Object.getPrototypeOf(value);
      if (prototype !== Object.prototype && prototype !== null) {
        throw new Refusal(`header ${name} holds an object that is not plain`);
      }
      const table = encodeTable(value as Readonly<Record<string, unknown>>, depth + 1);
      return { value: table.value, bytes: table.bytes + 1 };
    }
    default:
      throw new Refusal(`header ${name} holds a ${typeof value}`);
  }
}

function encodeTable(table: Readonly<Record<string, unknown>>, depth: number): Encoded {
  const encoded: Record<string, unknown> = {};
  let bytes = 4;
  for (const name of Object.keys(table)) {
    const value = table[name];
    if (value === undefined) continue;
    checkText("a header's name", name);
    if (name === "!" || name === "__proto__") throw new Refusal(`a header is named ${name}`);
    const entry = encodeValue(name, value, depth);
    encoded[name] = entry.value;
    bytes += 1 + Buffer.byteLength(name) + entry.bytes;
    if (bytes > headerBytesMax) throw new Refusal(`the headers exceed ${headerBytesMax} bytes`);
  }
  return { value: encoded, bytes };
}

function checkInteger(name: string, value: number | undefined, max: number): void {
  if (value === undefined) return;
  if (!Number.isInteger(value) || value < 0 || value > max) {
    throw new Refusal(`${name} is not a whole number from 0 to ${max}`);
  }
}

/** A message as amqplib takes it, with its size for the window. */
export interface PreparedMessage<Key = unknown> {
  readonly message: OutgoingMessage<Key>;
  readonly options: Options.Publish;
  /** Body and headers, in bytes. */
  readonly bytes: number;
}

/**
 * Checks a message and builds its publish options: always persistent, always mandatory.
 *
 * @returns the prepared message, or the reason why this very message can never be published
 */
export function prepareMessage<Key>(message: OutgoingMessage<Key>): PreparedMessage<Key> | string {
  const { exchange, routingKey, content, properties } = message;
  try {
    checkText("exchange", exchange);
    checkText("routingKey", routingKey);
    checkText("messageId", properties.messageId);
    checkText("type", properties.type);
    checkText("correlationId", properties.correlationId);
    checkText("appId", properties.appId);
    checkText("contentType", properties.contentType);
    checkText("contentEncoding", properties.contentEncoding);
    checkInteger("priority", properties.priority, 255);
    // 1e11 seconds is the year 5138: more than that are milliseconds.
    checkInteger("timestamp (in seconds)", properties.timestamp, 100_000_000_000);
    if (!Buffer.isBuffer(content)) throw new Refusal("content is not a Buffer");
    if (content.length > contentBytesMax) {
      throw new Refusal(
        `the body has ${content.length} bytes, at most ${contentBytesMax} can be sent`,
      );
    }
    for (const name of Object.keys(properties.headers)) {
      if (reservedHeader.test(name)) throw new Refusal(`header ${name} belongs to the broker`);
    }
    const headers = encodeTable(properties.headers, 1);
    return {
      message,
      bytes: content.length + headers.bytes + 100,
      options: {
        mandatory: true,
        persistent: true,
        headers: headers.value,
        messageId: properties.messageId,
        type: properties.type,
        // amqplib leaves out what is undefined; its types do not say so.
        ...({
          correlationId: properties.correlationId,
          timestamp: properties.timestamp,
          appId: properties.appId,
          contentType: properties.contentType,
          contentEncoding: properties.contentEncoding,
          priority: properties.priority,
        } as Options.Publish),
      },
    };
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}
