/**
 * Reads header values that nobody vouches for. Producers send one number as eight AMQP types, as a
 * text, as bytes, or as amqplib's tagged objects (`{ "!": "int64", value }`); whatever does not fit
 * counts as absent, and nothing here throws.
 */

import { isUtf8 } from "node:buffer";

/** Headers as {@link IncomingMessage} carries them. */
export type HeaderTable = Readonly<Record<string, unknown>>;

/** Most headers of the application that are kept. */
const headersMax = 64;
/** Longest name of a header that is kept, in UTF-8 bytes; AMQP allows 255. */
const headerNameBytesMax = 128;
/** Most that all kept headers take, in UTF-8 bytes: they must fit one AMQP frame. */
const headerBytesMax = 16_384;

const integerText = /^[+-]?\d{1,18}$/;
const isoText = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?$/i;
const hasZone = /(?:Z|[+-]\d\d:?\d\d)$/i;
const control = /[\u0000-\u001f\u007f]/;

/** Earliest and latest instant that is believed; PostgreSQL and JavaScript store both. */
const earliestMs = Date.UTC(2000, 0, 1);
const latestMs = Date.UTC(9999, 11, 31);

/** A header's value; undefined also for names of `Object.prototype`. */
export function headerOf(headers: HeaderTable, name: string): unknown {
  return Object.hasOwn(headers, name) ? headers[name] : undefined;
}

function decimalText(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { places, digits } = value as { readonly places?: unknown; readonly digits?: unknown };
  if (typeof places !== "number" || typeof digits !== "number") return undefined;
  if (!Number.isInteger(places) || places < 0 || places > 20) return undefined;
  return (digits / 10 ** places).toFixed(places);
}

/** A value as text: texts, numbers, booleans, bytes of UTF-8, instants; undefined for the rest. */
export function headerText(value: unknown, depth = 0): string | undefined {
  switch (typeof value) {
    case "string":
      return value;
    case "boolean":
    case "bigint":
      return String(value);
    case "number":
      return Number.isFinite(value) ? String(value) : undefined;
    case "object": {
      if (value === null || Array.isArray(value)) return undefined;
      // aio-pika sends 1.5 as the bytes of "1.5".
      if (value instanceof Uint8Array) {
        return isUtf8(value) ? Buffer.from(value).toString("utf8") : undefined;
      }
      if (value instanceof Date) return instantText(value.getTime());
      if (depth > 0 || !Object.hasOwn(value, "!") || !Object.hasOwn(value, "value"))
        return undefined;
      const tagged = value as { readonly "!": unknown; readonly value: unknown };
      if (tagged["!"] === "decimal") return decimalText(tagged.value);
      if (tagged["!"] !== "timestamp") return headerText(tagged.value, depth + 1);
      const seconds = headerInteger(tagged.value);
      return seconds === undefined ? undefined : instantText(millisecondsOf(seconds));
    }
    default:
      return undefined;
  }
}

const instantText = (ms: number): string | undefined =>
  Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : undefined;

/** A value as a safe integer, or undefined. */
export function headerInteger(value: unknown): number | undefined {
  const text = headerText(value);
  if (text === undefined || !integerText.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** A value as an integer between two bounds, or undefined. */
export function headerIntegerWithin(value: unknown, min: number, max: number): number | undefined {
  const number = headerInteger(value);
  return number !== undefined && number >= min && number <= max ? number : undefined;
}

/** Seconds or milliseconds since 1970 as milliseconds: producers mix them up, 1e11 lies between. */
export function millisecondsOf(timestamp: number): number {
  return Math.abs(timestamp) > 1e11 ? timestamp : timestamp * 1_000;
}

/** A value as an instant from 2000 to 9999: seconds, milliseconds, or ISO 8601; or undefined. */
export function headerInstant(value: unknown): Date | undefined {
  const integer = headerInteger(value);
  const text = integer === undefined ? headerText(value) : undefined;
  let ms = Number.NaN;
  if (integer !== undefined) ms = millisecondsOf(integer);
  // A text without a zone is UTC, as Celery means it, and not the zone of this machine.
  else if (text !== undefined && isoText.test(text)) {
    ms = Date.parse(hasZone.test(text) ? text : `${text}Z`);
  }
  return ms >= earliestMs && ms <= latestMs ? new Date(ms) : undefined;
}

/** A value as text of 1 to `maxBytes` bytes without control characters or lone surrogates. */
export function headerName(value: unknown, maxBytes: number): string | undefined {
  const text = headerText(value);
  if (text === undefined || text === "" || control.test(text) || !text.isWellFormed()) {
    return undefined;
  }
  return Buffer.byteLength(text, "utf8") <= maxBytes ? text : undefined;
}

/**
 * True for names that a header of the application cannot have: `waybill-*` is Waybill's, `x-*` the
 * broker's, and `CC` and `BCC` would make the broker send copies to the queues that they name.
 */
export function isReservedHeader(name: string): boolean {
  return /^(?:waybill-|x-|b?cc$|__proto__$)/i.test(name);
}

/** The headers that travel on with the job: text, in bounds, not reserved. */
export function applicationHeaders(headers: HeaderTable): Record<string, string> {
  const kept: Record<string, string> = Object.create(null);
  let count = 0;
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    if (isReservedHeader(name) || headerName(name, headerNameBytesMax) === undefined) continue;
    const text = headerText(value);
    if (text === undefined || text.includes("\u0000") || !text.isWellFormed()) continue;
    const size = Buffer.byteLength(name, "utf8") + Buffer.byteLength(text, "utf8");
    if (count >= headersMax || bytes + size > headerBytesMax) continue;
    kept[name] = text;
    count += 1;
    bytes += size;
  }
  return kept;
}
