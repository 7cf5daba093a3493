/**
 * Turns what amqplib hands over into plain, bounded values. Headers come from anyone: no type, no
 * size and no name in them is trusted, and a number may arrive under any of a dozen tags.
 */

import type { ConsumeMessage, GetMessage } from "amqplib";
import type { IncomingMessage } from "@waybill/core";

/** A header's value after {@link plainValue}. */
export type PlainValue =
  | string
  | number
  | boolean
  | null
  | readonly PlainValue[]
  | { readonly [name: string]: PlainValue };

const depthMax = 8;
const itemsMax = 1_000;

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** amqplib's tagged values: `{ "!": "timestamp", value }`. */
function untagged(value: Readonly<Record<string, unknown>>): PlainValue | undefined {
  if (!Object.hasOwn(value, "!") || !Object.hasOwn(value, "value")) return undefined;
  const inner = value["value"];
  switch (value["!"]) {
    case "decimal": {
      if (!isRecord(inner)) return null;
      const { places, digits } = inner;
      return typeof places === "number" && typeof digits === "number"
        ? digits / 10 ** places
        : null;
    }
    case "timestamp":
      // Seconds, by the specification; senders that put milliseconds are the reader's to detect.
      return typeof inner === "number" ? inner : null;
    default:
      return typeof inner === "number" || typeof inner === "string" ? inner : null;
  }
}

function plain(value: unknown, depth: number, budget: { items: number }): PlainValue {
  budget.items -= 1;
  if (budget.items < 0 || depth > depthMax) return null;
  switch (typeof value) {
    case "string":
      return value.toWellFormed();
    case "number":
      return Number.isFinite(value) ? value : null;
    case "bigint":
      return Number(value);
    case "boolean":
      return value;
    case "object": {
      if (value === null) return null;
      // Some clients send texts as bytes.
      if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
      if (Array.isArray(value)) {
        return value.map((item: unknown) => plain(item, depth + 1, budget));
      }
      if (value instanceof Date) return Math.floor(value.getTime() / 1_000);
      const record = value as Readonly<Record<string, unknown>>;
      const single = untagged(record);
      if (single !== undefined) return single;
      return plainTable(record, depth + 1, budget);
    }
    default:
      return null;
  }
}

function plainTable(
  table: Readonly<Record<string, unknown>>,
  depth: number,
  budget: { items: number },
): { readonly [name: string]: PlainValue } {
  // No prototype: a header named "__proto__" or "toString" is a header like any other.
  const result: Record<string, PlainValue> = Object.create(null);
  for (const name of Object.keys(table)) {
    if (budget.items <= 0) break;
    result[name.toWellFormed()] = plain(table[name], depth, budget);
  }
  return result;
}

/**
 * A plain copy of a decoded AMQP value: bytes as UTF-8 text, timestamps as numbers, decimals as
 * numbers, nesting beyond 8 levels and everything after 1,000 values as null or left out.
 */
export function plainValue(value: unknown): PlainValue {
  return plain(value, 1, { items: itemsMax });
}

/** A plain copy of a header table, without a prototype. See {@link plainValue}. */
export function plainHeaders(headers: unknown): { readonly [name: string]: PlainValue } {
  return plainTable(isRecord(headers) ? headers : {}, 1, { items: itemsMax });
}

/** A whole number out of a plain value, numeric texts included; undefined for anything else. */
export function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.toWellFormed() : undefined;
}

/** One entry of the broker's `x-death` header: what happened to a message before. */
export interface Death {
  /** Queue in which it happened, full name at the broker. */
  readonly queue: string;
  /** `rejected`, `expired`, `maxlen` or `delivery_limit`. */
  readonly reason: string;
  readonly count: number;
  /** Seconds since 1970. */
  readonly timeSeconds: number | undefined;
}

/** The `x-death` entries of plain headers, newest first; at most 50, malformed ones left out. */
export function deathsOf(headers: Readonly<Record<string, unknown>>): readonly Death[] {
  const list = headers["x-death"];
  if (!Array.isArray(list)) return [];
  const deaths: Death[] = [];
  for (const entry of list.slice(0, 50) as readonly unknown[]) {
    if (!isRecord(entry)) continue;
    const { queue, reason, count, time } = entry;
    if (typeof queue !== "string" || typeof reason !== "string") continue;
    deaths.push({ queue, reason, count: wholeNumber(count) ?? 1, timeSeconds: wholeNumber(time) });
  }
  return deaths;
}

/**
 * A received message as plain values.
 *
 * @param queue the queue's name without the prefix
 */
export function incomingMessage(
  message: ConsumeMessage | GetMessage,
  queue: string,
): IncomingMessage {
  const { properties, fields } = message;
  return {
    queue,
    content: message.content,
    messageId: text(properties.messageId),
    type: text(properties.type),
    correlationId: text(properties.correlationId),
    contentType: text(properties.contentType),
    contentEncoding: text(properties.contentEncoding),
    timestamp: wholeNumber(plainValue(properties.timestamp)),
    priority: wholeNumber(properties.priority),
    redelivered: fields.redelivered,
    headers: plainHeaders(properties.headers),
  };
}
