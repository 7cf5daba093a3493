/**
 * Makes an {@link Envelope} of whatever lies in a queue: our own messages, and those of producers
 * that never heard of Waybill. The order of trust: an AMQP property, then the place that the
 * declared format has for it, then what the queue's options say. Nothing here throws and nothing is
 * lost: what cannot be read keeps its bytes and gets a reason.
 *
 * Read next: decoders/, one file a format.
 */

import { isUtf8 } from "node:buffer";
import { celeryDecoder } from "./decoders/celery.ts";
import { cloudEventsDecoder, isBinaryCloudEvent } from "./decoders/cloudevents.ts";
import type { Decoder, Identity, Reading } from "./decoders/decoder.ts";
import { jsonDecoder } from "./decoders/json.ts";
import { nestjsDecoder } from "./decoders/nestjs.ts";
import {
  type Envelope,
  type IncomingMessage,
  type UnreadableEnvelope,
  waybillHeaders,
} from "./envelope.ts";
import {
  applicationHeaders,
  headerInstant,
  headerIntegerWithin,
  headerName,
  headerOf,
  headerText,
  type HeaderTable,
} from "./header-values.ts";
import { canonicalUuid, derivedId } from "./id.ts";
import { isTypeName } from "./names.ts";
import { decodePayload, type PayloadResult } from "./payload.ts";
import { cleanText } from "./text.ts";

/** The formats that can be declared for a queue. */
export const decoderNames = ["json", "nestjs", "celery", "cloudevents"] as const;

/** One of {@link decoderNames}. */
export type DecoderName = (typeof decoderNames)[number];

/** What decoding needs to know apart from the message. */
export interface DecodeContext {
  /** Format of foreign messages in this queue. */
  readonly decoder: DecoderName;
  /** Job that foreign messages without a type are; undefined: they are dead-lettered. */
  readonly untypedJob?: string | undefined;
  /** Largest body that is read, in bytes. */
  readonly maxBytes: number;
  /** Makes the id of a message that has none; UUIDv7. */
  readonly newId: () => string;
  readonly now: () => Date;
}

/** Type of a message that has none, as it is stored and dead-lettered. */
export const untypedType = "(none)";

/** Longest reason of an unreadable message, in UTF-16 units. */
const reasonLength = 500;
const day = 86_400_000;
/** Far from what PostgreSQL's integer holds, so that adding 1 never overflows. */
const counterMax = 1_000_000_000;
/**
 * Largest dispatch that is read, though none above counterMax is run. Counted as absent, like other
 * numbers beyond their bounds, it would make an old copy of the retry of a message with a forged
 * dispatch, and that job would never end.
 */
const dispatchMax = 2_147_483_000;

const decoders: Readonly<Record<DecoderName, Decoder>> = {
  json: jsonDecoder,
  nestjs: nestjsDecoder,
  celery: celeryDecoder,
  cloudevents: cloudEventsDecoder,
};

/** Media types whose body may be JSON: clients without one for JSON send the latter two. */
const jsonMediaType =
  /^(?:|application\/(?:json|octet-stream|[a-z0-9.-]+\+json)|text\/(?:json|plain))$/;
const utf8Charset = /^(?:utf-?8|us-ascii|ascii)$/;
const readableEncoding = /^(?:|utf-?8|us-ascii|ascii|binary|identity|7bit|8bit)$/;

const clip = (text: string): string => JSON.stringify(text.slice(0, 80));

const contentTypeOf = (message: IncomingMessage): string =>
  message.contentType === undefined || message.contentType === ""
    ? "no content type is given"
    : `the content type is ${clip(message.contentType)}`;

/** True for a message that could not be read; its `reason` says why. */
export function isUnreadable(envelope: Envelope): envelope is UnreadableEnvelope {
  return "reason" in envelope;
}

/**
 * Parses the payload of an envelope.
 *
 * @param maxBytes limit of the text in UTF-8 bytes
 */
export function payloadOf(
  envelope: Pick<Envelope, "payload" | "payloadBase64">,
  maxBytes: number,
): PayloadResult<{ readonly value: unknown }> {
  return envelope.payloadBase64
    ? { issues: [{ path: "", message: "is not UTF-8 text" }] }
    : decodePayload(envelope.payload, maxBytes);
}

/** Bytes as PostgreSQL can store them: their exact text, or base64 where they are none. */
function storable(content: Buffer): { payload: string; payloadBase64: boolean } {
  return isUtf8(content) && !content.includes(0)
    ? { payload: content.toString("utf8"), payloadBase64: false }
    : { payload: content.toString("base64"), payloadBase64: true };
}

/** Why the body is not even tried, from what the message says about it. */
function mediaProblem(message: IncomingMessage): string | undefined {
  const [media = "", ...parameters] = (message.contentType ?? "").toLowerCase().split(";");
  if (!jsonMediaType.test(media.trim())) {
    return `content type ${clip(message.contentType ?? "")} is not read, only JSON is`;
  }
  const charset = parameters.map((each) => /^\s*charset\s*=\s*"?([^"]*)"?\s*$/.exec(each)?.[1]);
  const odd = charset.find((each) => each !== undefined && !utf8Charset.test(each.trim()));
  if (odd !== undefined) return `character set ${clip(odd)} is not read, only UTF-8 is`;
  const encoding = (message.contentEncoding ?? "").toLowerCase().trim();
  if (!readableEncoding.test(encoding)) {
    return `content encoding ${clip(message.contentEncoding ?? "")} is not read, ${contentTypeOf(message)}`;
  }
  // kombu compresses the body and leaves content type and encoding as they were.
  const compression = headerText(headerOf(message.headers, "compression"));
  return compression === undefined || compression === ""
    ? undefined
    : `the body is compressed (${clip(compression)}), which is not read, ${contentTypeOf(message)}`;
}

function decoderFor(message: IncomingMessage, declared: DecoderName): Decoder {
  const structured = (message.contentType ?? "")
    .toLowerCase()
    .startsWith("application/cloudevents+json");
  return declared === "json" && (structured || isBinaryCloudEvent(message.headers))
    ? cloudEventsDecoder
    : decoders[declared];
}

function readBody(
  message: IncomingMessage,
  payload: string,
  decoder: Decoder,
  maxBytes: number,
): Reading {
  const parsed = decodePayload(payload, maxBytes);
  if (parsed.issues !== undefined) {
    const bom = payload.startsWith("\ufeff") ? ", it starts with a byte order mark" : "";
    const what = parsed.issues[0]?.message ?? "is not JSON";
    return { problem: `the body ${what}${bom}, ${contentTypeOf(message)}` };
  }
  return decoder.read({ text: payload, value: parsed.value }, message.headers);
}

function givenType(type: string | undefined): string | undefined {
  return type === undefined || type === "" || type === untypedType ? undefined : type;
}

function idOf(
  message: IncomingMessage,
  type: string,
  found: readonly string[] | undefined,
  newId: () => string,
): Pick<Envelope, "id" | "idSource"> {
  const parts =
    message.messageId === undefined || message.messageId === "" ? found : [message.messageId];
  const last = parts?.at(-1);
  if (parts === undefined || last === undefined || last === "") {
    return { id: newId(), idSource: "fresh" };
  }
  const uuid = canonicalUuid(last);
  if (uuid === undefined)
    return { id: derivedId(message.queue, type, ...parts), idSource: "derived" };
  // An unset Guid of .NET is all zeros; taken as an id it would make one job of all messages.
  return /^(?:[0-]+|[f-]+)$/.test(uuid)
    ? { id: newId(), idSource: "fresh" }
    : { id: uuid, idSource: "given" };
}

/** When it was sent: believed from 2000 on, and from foreign clocks never in the future. */
function enqueuedAtOf(message: IncomingMessage, reading: Reading, now: Date): Date {
  const own = headerInstant(headerOf(message.headers, waybillHeaders.enqueuedAt));
  if (own !== undefined && own.getTime() <= now.getTime() + day) return own;
  const foreign = headerInstant(message.timestamp) ?? reading.enqueuedAt;
  return foreign !== undefined && foreign < now ? foreign : now;
}

function priorityOf(message: IncomingMessage): number | null {
  const own = headerIntegerWithin(headerOf(message.headers, waybillHeaders.priority), -100, 100);
  // kombu, bunny and aio-pika send 0 where nothing was asked for.
  return own ?? headerIntegerWithin(message.priority, 1, 255) ?? null;
}

/** A name that nobody could subscribe to is no event. */
function terminalEventOf(headers: HeaderTable): string | null {
  const name = headerName(headerOf(headers, waybillHeaders.onTerminal), 128);
  return name !== undefined && isTypeName(name) ? name : null;
}

/** A key as enqueue accepts it; foreign producers cannot set one by chance. */
function concurrencyKeyOf(headers: HeaderTable): string | null {
  return headerName(headerOf(headers, waybillHeaders.concurrencyKey), 255) ?? null;
}

function counter(headers: HeaderTable, name: string, min: number, max = counterMax): number {
  return headerIntegerWithin(headerOf(headers, name), min, max) ?? min;
}

/** Why a foreign message has no type, in words that lead to the remedy. */
function untypedReason(decoder: DecoderName): string {
  const place = {
    json: "header type",
    nestjs: "text as the body's pattern",
    celery: "header task",
    cloudevents: "attribute type",
  }[decoder];
  return `no type: neither the property type nor a ${place} names the job, and the queue has no untypedJob`;
}

/**
 * Decodes a message. Never throws; the same message with the same context gives the same envelope,
 * but for a fresh id and the time.
 *
 * Of Waybill's own headers it believes dispatch, version, death, priority, ordering key, enqueued-at
 * and expires-at, each within bounds, and on-terminal, concurrency-key, slot and origin in its own messages; all else is decided from
 * the database.
 *
 * @returns the envelope, or an {@link UnreadableEnvelope} with the bytes and a reason:
 *   `undecodable` for a body that is not read, `no_handler` for a message without a type
 */
export function decodeEnvelope(
  message: IncomingMessage,
  context: DecodeContext,
): Envelope | UnreadableEnvelope {
  const { headers } = message;
  const stored = storable(message.content);
  const property = givenType(message.type);
  // Ours, whatever the queue's declared format: producers change over one by one, and a retry of a
  // foreign message comes back unwrapped. Not so a dead letter that never had a type.
  const own =
    property !== undefined &&
    headerIntegerWithin(headerOf(headers, waybillHeaders.dispatch), 1, dispatchMax) !== undefined;
  const dispatch = counter(headers, waybillHeaders.dispatch, 1, dispatchMax);
  const decoder = decoderFor(message, context.decoder);
  const identity: Identity = own ? {} : decoder.identify(headers);
  const media = mediaProblem(message);
  const size = message.content.length;

  let reading: Reading = {};
  if (media !== undefined) reading = { problem: media };
  else if (size > context.maxBytes) {
    reading = { problem: `the body is ${size} bytes, the limit is ${context.maxBytes}` };
  } else if (stored.payloadBase64) {
    const what = isUtf8(message.content) ? "holds NUL bytes" : "is not UTF-8";
    reading = {
      problem: `the body ${what}, ${contentTypeOf(message)}`,
    };
  } else if (own && dispatch > counterMax) {
    reading = { problem: `the dispatch ${dispatch} is beyond ${counterMax}, which no job reaches` };
  } else if (!own) reading = readBody(message, stored.payload, decoder, context.maxBytes);

  const candidate =
    property ?? givenType(identity.type) ?? givenType(reading.type) ?? context.untypedJob;
  const type = headerName(candidate, 255);
  const now = context.now();
  const envelope: Envelope = {
    ...idOf(message, type ?? untypedType, identity.id ?? reading.id, context.newId),
    queue: message.queue,
    type: type ?? untypedType,
    version: counter(headers, waybillHeaders.version, 1, 32_767),
    dispatch,
    death: counter(headers, waybillHeaders.death, 0),
    priority: priorityOf(message),
    orderingKey: headerName(headerOf(headers, waybillHeaders.orderingKey), 255) ?? null,
    correlationId: headerName(message.correlationId, 255) ?? null,
    enqueuedAt: enqueuedAtOf(message, reading, now),
    expiresAt:
      headerInstant(headerOf(headers, waybillHeaders.expiresAt)) ?? reading.expiresAt ?? null,
    runAt: reading.runAt !== undefined && reading.runAt > now ? reading.runAt : null,
    onTerminal: own ? terminalEventOf(headers) : null,
    concurrencyKey: own ? concurrencyKeyOf(headers) : null,
    slot: own ? (headerName(headerOf(headers, waybillHeaders.slot), 63) ?? null) : null,
    origin: own ? (headerName(headerOf(headers, waybillHeaders.origin), 100) ?? null) : null,
    headers: applicationHeaders({ ...headers, ...reading.headers }),
    ...stored,
  };
  if (reading.problem !== undefined) {
    return {
      ...envelope,
      failureClass: "undecodable",
      reason: cleanText(reading.problem, reasonLength),
    };
  }
  if (type === undefined) {
    const reason =
      candidate === undefined
        ? untypedReason(context.decoder)
        : `the type ${clip(candidate)} is no text of 1 to 255 bytes`;
    return { ...envelope, failureClass: "no_handler", reason: cleanText(reason, reasonLength) };
  }
  return reading.payload === undefined ? envelope : { ...envelope, payload: reading.payload };
}
