import type { HeaderTable } from "../header-values.ts";

/** A body that is JSON: its exact text and its value. */
export interface JsonBody {
  readonly text: string;
  readonly value: unknown;
}

/** Who a message says it is, in the places of its format. */
export interface Identity {
  readonly type?: string | undefined;
  /** Texts that together name the message; a single UUID names it alone. */
  readonly id?: readonly string[] | undefined;
}

/** What a decoder found in a body. */
export interface Reading extends Identity {
  /** Why the body cannot be read; the reason of the dead letter. */
  readonly problem?: string | undefined;
  /** JSON text of the payload; absent for the body's own text. */
  readonly payload?: string | undefined;
  /** Attributes of the format that a handler may want, added to the headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly expiresAt?: Date | undefined;
  readonly runAt?: Date | undefined;
  readonly enqueuedAt?: Date | undefined;
}

/** One message format. Neither function throws, whatever the message holds. */
export interface Decoder {
  /** Reads the headers alone: also a message with an unreadable body has an identity. */
  readonly identify: (headers: HeaderTable) => Identity;
  readonly read: (body: JsonBody, headers: HeaderTable) => Reading;
}

/** A plain JSON object, or undefined. */
export function recordOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}

/** An own property that is a text and not empty, or undefined. */
export function memberText(
  record: Readonly<Record<string, unknown>>,
  key: string,
): string | undefined {
  const value = Object.hasOwn(record, key) ? record[key] : undefined;
  return typeof value === "string" && value !== "" ? value : undefined;
}
