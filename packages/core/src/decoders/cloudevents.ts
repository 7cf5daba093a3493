import { isUtf8 } from "node:buffer";
import { headerInstant, headerOf, headerText, type HeaderTable } from "../header-values.ts";
import { memberTexts } from "../json-text.ts";
import { decodePayload, payloadBytesMax } from "../payload.ts";
import { type Decoder, type Identity, memberText, type Reading, recordOf } from "./decoder.ts";

/** Spellings of the attributes' prefix: AMQP binding (two forms), HTTP binding as some SDKs send it. */
const prefixes = ["cloudEvents:", "cloudEvents_", "ce-"] as const;

/** An attribute in binary mode, where each is a header. */
function attribute(headers: HeaderTable, name: string): string | undefined {
  for (const prefix of prefixes) {
    const text = headerText(headerOf(headers, prefix + name));
    if (text !== undefined && text !== "") return text;
  }
  return undefined;
}

/** The specification makes source and id together unique. */
function idOf(source: string | undefined, id: string | undefined): readonly string[] | undefined {
  return id === undefined ? undefined : [source ?? "", id];
}

function identify(headers: HeaderTable): Identity {
  return {
    type: attribute(headers, "type"),
    id: idOf(attribute(headers, "source"), attribute(headers, "id")),
  };
}

function dataText(text: string, event: Readonly<Record<string, unknown>>): string | undefined {
  const encoded = memberText(event, "data_base64");
  if (encoded === undefined) return memberTexts(text).get("data") ?? "null";
  const bytes = Buffer.from(encoded, "base64");
  if (!isUtf8(bytes)) return undefined;
  const data = bytes.toString("utf8");
  return decodePayload(data, payloadBytesMax).issues === undefined ? data : undefined;
}

/** Attributes as the headers that binary mode would have; `data` is the payload. */
function attributeHeaders(event: Readonly<Record<string, unknown>>): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(event)) {
    const text = name === "data" || name === "data_base64" ? undefined : headerText(value);
    if (text !== undefined && /^[a-z0-9]{1,64}$/.test(name)) headers[`cloudEvents:${name}`] = text;
  }
  return headers;
}

function readStructured(text: string, event: Readonly<Record<string, unknown>>): Reading {
  const identity = {
    type: memberText(event, "type"),
    id: idOf(memberText(event, "source"), memberText(event, "id")),
  };
  const payload = dataText(text, event);
  if (payload === undefined) {
    return { ...identity, problem: "the CloudEvent's data_base64 holds no JSON" };
  }
  return {
    ...identity,
    payload,
    headers: attributeHeaders(event),
    enqueuedAt: headerInstant(event["time"]),
  };
}

/** True for a message in CloudEvents' binary mode. */
export function isBinaryCloudEvent(headers: HeaderTable): boolean {
  return attribute(headers, "specversion") !== undefined;
}

/**
 * CloudEvents 1.0: structured mode (the body is the event, `data` the payload) and binary mode (the
 * attributes are headers, the body the payload). Attributes reach the handler as headers
 * `cloudEvents:<name>` in both.
 */
export const cloudEventsDecoder: Decoder = {
  identify,
  read: ({ text, value }, headers) => {
    if (isBinaryCloudEvent(headers)) {
      return { enqueuedAt: headerInstant(attribute(headers, "time")) };
    }
    const event = recordOf(value);
    if (event === undefined || memberText(event, "specversion") === undefined) {
      return { problem: 'the body is no CloudEvent: it has no "specversion"' };
    }
    return readStructured(text, event);
  },
};
