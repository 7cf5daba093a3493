/**
 * Signatures of messages: an HMAC-SHA-256 over everything in a message that a worker believes. The relay
 * signs, since all that it publishes comes out of the database; workers check. Nobody who can only
 * reach the broker can make a message, change one, or move it to another queue.
 *
 * Signed is one text, in which each part has its length before it, and then the body's bytes:
 *
 *     waybill-signature-1, the scope, the properties message-id, type, correlation-id, content-type,
 *     content-encoding, timestamp and priority, and each signed header's name and value by its name.
 *
 * A part that is absent is empty, a text has "s" before it, a whole number "i". The signature itself is
 * the header `waybill-signature`: `1:<key id>:<base64url of the HMAC>`.
 */

import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { delimited } from "./delimited.ts";
import { type IncomingMessage, waybillHeaders } from "./envelope.ts";
import { keyIdSource, type KeyRing } from "./key-ring.ts";

/** What a message was signed for: the jobs of one queue, or the subscriptions of its event. */
export type SignatureScope = "event" | `queue:${string}`;

/** The parts of a message that are signed; the timestamp in seconds since 1970. */
export type SignedParts = Pick<
  IncomingMessage,
  | "messageId"
  | "type"
  | "correlationId"
  | "contentType"
  | "contentEncoding"
  | "timestamp"
  | "priority"
  | "headers"
  | "content"
>;

const signatureHeader = waybillHeaders.signature;
const domain = "waybill-signature-1";
const format = new RegExp(`^1:(${keyIdSource}):([A-Za-z0-9_-]{43})$`);

/**
 * Headers that the broker adds or takes away on the way: `x-*`, the copies of CC and BCC, and the time
 * stamp of its interceptor. Of all these a worker believes nothing.
 */
const unsignedHeader = /^(?:x-.*|b?cc|timestamp_in_ms|waybill-signature)$/i;

/** A part of the signed text; undefined for what cannot be signed. */
function partOf(value: unknown): string | undefined {
  if (value === undefined || value === "") return "";
  if (typeof value === "string") return `s${value}`;
  return typeof value === "number" && Number.isSafeInteger(value) ? `i${value}` : undefined;
}

/** Undefined for a message that holds what cannot be signed. */
function hmacOf(key: KeyObject, scope: SignatureScope, message: SignedParts): Buffer | undefined {
  const parts: (string | undefined)[] = [
    domain,
    scope,
    partOf(message.messageId),
    partOf(message.type),
    partOf(message.correlationId),
    partOf(message.contentType),
    partOf(message.contentEncoding),
    partOf(message.timestamp),
    partOf(message.priority),
  ];
  const names = Object.keys(message.headers).filter((name) => !unsignedHeader.test(name));
  for (const name of names.sort()) parts.push(name, partOf(message.headers[name]));
  if (!parts.every((part) => part !== undefined)) return undefined;
  return createHmac("sha256", key).update(delimited(parts)).update(message.content).digest();
}

/**
 * The value of the header `waybill-signature` for a message, by the ring's current key; undefined where
 * one of its headers is no text and no whole number, which only a row written past `waybill.enqueue` has.
 */
export function signatureOf(
  keys: KeyRing,
  scope: SignatureScope,
  message: SignedParts,
): string | undefined {
  const key = keys.key(keys.currentId);
  const hmac = key === undefined ? undefined : hmacOf(key, scope, message);
  return hmac === undefined ? undefined : `1:${keys.currentId}:${hmac.toString("base64url")}`;
}

/** Why a message is not to be believed, in words that hold nothing of it but a key's id. */
export interface SignatureProblem {
  /** `unsigned`: it bears no signature at all. */
  readonly kind: "unsigned" | "unknown_key" | "wrong";
  readonly reason: string;
}

/**
 * Checks the signature of a message, in constant time where its key is known.
 *
 * @param scopes that it may have been signed for
 * @returns undefined where it fits
 */
export function signatureProblem(
  keys: KeyRing,
  scopes: readonly SignatureScope[],
  message: SignedParts,
): SignatureProblem | undefined {
  const given = Object.hasOwn(message.headers, signatureHeader)
    ? message.headers[signatureHeader]
    : undefined;
  if (given === undefined) {
    return { kind: "unsigned", reason: `the message has no header ${signatureHeader}` };
  }
  const [, keyId = "", text = ""] = (typeof given === "string" ? format.exec(given) : null) ?? [];
  if (text === "") {
    return { kind: "wrong", reason: `the header ${signatureHeader} is no signature` };
  }
  const key = keys.key(keyId);
  if (key === undefined) {
    return {
      kind: "unknown_key",
      reason: `the message is signed with the key "${keyId}", which this worker does not have`,
    };
  }
  const claimed = Buffer.from(text, "base64url");
  const fits = scopes.some((scope) => {
    const hmac = hmacOf(key, scope, message);
    return hmac !== undefined && timingSafeEqual(hmac, claimed);
  });
  return fits
    ? undefined
    : {
        kind: "wrong",
        reason: `the signature by the key "${keyId}" does not fit the message, or was made for another queue`,
      };
}
