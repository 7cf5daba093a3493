import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type DecodeContext, decodeEnvelope, isUnreadable, payloadOf } from "./decode.ts";
import type { Envelope, IncomingMessage, UnreadableEnvelope } from "./envelope.ts";
import { derivedId } from "./id.ts";

const uuid = "8f7410f8-c626-43f3-aa5a-a22318f0e00a";
const fresh = "0190b5a0-0000-7000-8000-000000000001";
const now = new Date("2026-11-30T08:00:00Z");

function message(
  parts: Partial<IncomingMessage> & { readonly body?: string } = {},
): IncomingMessage {
  const { body = '{"to":"ada@example.com"}', ...rest } = parts;
  return {
    queue: "emails",
    content: Buffer.from(body),
    messageId: undefined,
    type: undefined,
    correlationId: undefined,
    contentType: undefined,
    contentEncoding: undefined,
    timestamp: undefined,
    priority: undefined,
    redelivered: false,
    headers: {},
    ...rest,
  };
}

function decode(
  parts: Parameters<typeof message>[0] = {},
  context: Partial<DecodeContext> = {},
): Envelope | UnreadableEnvelope {
  return decodeEnvelope(message(parts), {
    decoder: "json",
    maxBytes: 262_144,
    newId: () => fresh,
    now: () => now,
    ...context,
  });
}

const reasonOf = (envelope: Envelope): string | undefined =>
  isUnreadable(envelope) ? `${envelope.failureClass}: ${envelope.reason}` : undefined;

// Identity.

test.each([
  [uuid, uuid, "given"],
  [uuid.toUpperCase(), uuid, "given"],
  [uuid.replaceAll("-", ""), uuid, "given"],
  ["order-42", derivedId("emails", "emails.welcome", "order-42"), "derived"],
  ["", fresh, "fresh"],
  [undefined, fresh, "fresh"],
  // .NET's unset Guid.
  ["00000000-0000-0000-0000-000000000000", fresh, "fresh"],
])("the message id %j becomes the job id %s (%s)", (messageId, id, idSource) => {
  expect(decode({ messageId, type: "emails.welcome" })).toMatchObject({ id, idSource });
});

test("one message id under two types or in two queues is two jobs, again the same one is one", () => {
  const one = decode({ messageId: "order-42", type: "emails.welcome" });
  const again = decode({ messageId: "order-42", type: "emails.welcome" });
  const otherType = decode({ messageId: "order-42", type: "emails.receipt" });
  const otherQueue = decode({ messageId: "order-42", type: "emails.welcome", queue: "letters" });

  expect(again.id).toBe(one.id);
  expect(new Set([one.id, otherType.id, otherQueue.id]).size).toBe(3);
});

test("an id inside a plain JSON body is the payload's business", () => {
  expect(decode({ type: "t", body: `{"id":"${uuid}"}` })).toMatchObject({ id: fresh });
});

test("the type is the property, else the format's place, else the queue's only job", () => {
  const headers = { type: "from.header" };

  expect(decode({ type: "from.property", headers }, { untypedJob: "only" }).type).toBe(
    "from.property",
  );
  expect(decode({ headers }, { untypedJob: "only" }).type).toBe("from.header");
  expect(decode({}, { untypedJob: "only" }).type).toBe("only");
});

test("a message without a type keeps its bytes and says what is missing", () => {
  const envelope = decode({ messageId: uuid });

  expect(reasonOf(envelope)).toBe(
    "no_handler: no type: neither the property type nor a header type names the job, and the queue has no untypedJob",
  );
  expect(envelope).toMatchObject({ id: uuid, type: "(none)", payload: '{"to":"ada@example.com"}' });
});

test("a dead letter without a type that is moved back gets the job that the queue declares since", () => {
  const headers = { "waybill-dispatch": 3, "waybill-death": 1 };

  const envelope = decode(
    { messageId: uuid, type: "(none)", headers },
    { untypedJob: "emails.welcome" },
  );

  expect(envelope).toMatchObject({ id: uuid, type: "emails.welcome", dispatch: 3, death: 1 });
  expect(isUnreadable(envelope)).toBe(false);
});

test.each(["a\0b", "a\nb", "x".repeat(256), "\ud800"])("%j is refused as a type", (type) => {
  expect(reasonOf(decode({ type }))).toMatch(/^no_handler: the type /);
});

test.each(["constructor", "toString", "__proto__", "App\\Message\\Welcome"])(
  "the odd type %j is kept as it is, for the registry to miss",
  (type) => {
    expect(decode({ type })).toMatchObject({ type });
  },
);

// Bytes.

test.each([
  undefined,
  "",
  "application/json",
  "application/json; charset=utf-8",
  'APPLICATION/JSON;charset="UTF-8"',
  "text/plain",
  "text/json",
  "application/octet-stream",
  "application/vnd.acme.order+json",
])("a body of content type %j is read as JSON, byte for byte", (contentType) => {
  const body = '{ "n":12345678901234567890, "z":-0.0, "u":"Zo\\u00eb \\/ ë" }';

  const envelope = decode({ type: "t", contentType, body });

  expect(isUnreadable(envelope)).toBe(false);
  expect(envelope.payload).toBe(body);
});

test.each<[string, Partial<IncomingMessage> & { body?: string }, RegExp]>([
  [
    "pickle",
    { contentType: "application/x-python-serialize", content: Buffer.from("80044b2a2e", "hex") },
    /content type "application\/x-python-serialize" is not read/,
  ],
  [
    "PHP serialize",
    { contentType: "text/plain", body: 'O:12:"WelcomeEmail":1:{s:2:"to";s:1:"a";}' },
    /is not JSON, the content type is "text\/plain"/,
  ],
  [
    "zlib, named by a header",
    {
      contentType: "application/json",
      contentEncoding: "utf-8",
      headers: { compression: "application/x-gzip" },
      content: Buffer.from("789cab56", "hex"),
    },
    /compressed \("application\/x-gzip"\).*"application\/json"/,
  ],
  [
    "gzip, named by the encoding",
    {
      contentType: "application/json",
      contentEncoding: "gzip",
      content: Buffer.from("1f8b08", "hex"),
    },
    /content encoding "gzip" is not read.*"application\/json"/,
  ],
  [
    "zlib without a name",
    { content: Buffer.from("789cab56", "hex") },
    /is not UTF-8, no content type is given/,
  ],
  [
    "UTF-16",
    { contentType: "application/json", content: Buffer.from('{"a":"é"}', "utf16le") },
    /is not UTF-8|holds NUL/,
  ],
  [
    "UTF-16, named",
    { contentType: "application/json; charset=utf-16", content: Buffer.from("{}", "utf16le") },
    /character set "utf-16"/,
  ],
  ["truncated UTF-8", { content: Buffer.from([0x22, 0xc3]) }, /is not UTF-8/],
  [
    "a surrogate in UTF-8",
    { content: Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]) },
    /is not UTF-8/,
  ],
  ["a NUL byte", { body: '"a\0b"' }, /holds NUL bytes/],
  ["a byte order mark", { body: "\ufeff{}" }, /is not JSON, it starts with a byte order mark/],
  ["nothing", { body: "" }, /is empty/],
  ["plain words", { body: "plain text" }, /is not JSON/],
  ["truncated JSON", { body: '{"a":' }, /is not JSON/],
  ["65 levels", { body: "[".repeat(65) + "]".repeat(65) }, /nested deeper than 64/],
  ["a million levels", { body: "[".repeat(100_000) }, /nested deeper than 64/],
  [
    "1 MiB over a limit of 256 KiB",
    { body: JSON.stringify("x".repeat(1_048_576)) },
    /is 1048578 bytes, the limit is 262144/,
  ],
  ["XML", { contentType: "text/xml", body: "<a/>" }, /content type "text\/xml"/],
])("a body of %s is undecodable, with the reason and every byte kept", (_, parts, reason) => {
  const envelope = decode({ type: "emails.welcome", messageId: uuid, ...parts });

  expect(reasonOf(envelope)).toMatch(/^undecodable: /);
  expect(reasonOf(envelope)).toMatch(reason);
  expect(envelope).toMatchObject({ id: uuid, type: "emails.welcome" });
  expect(bytesOf(envelope)).toEqual(parts.content ?? Buffer.from(parts.body ?? ""));
  expect(payloadOf(envelope, 262_144).issues).toSatisfy(
    (issues: unknown) =>
      issues !== undefined ||
      parts.headers !== undefined ||
      /utf-16|limit|xml|gzip/i.test(reasonOf(envelope) ?? ""),
  );
});

test.each(["null", "[]", "{}", "0", '""', " true ", '{"a\\u0000":"\\ud800"}'])(
  "the body %s is JSON and is left to the job's schema",
  (body) => {
    expect(reasonOf(decode({ type: "t", body }))).toBeUndefined();
  },
);

function bytesOf(envelope: Envelope): Buffer {
  return Buffer.from(envelope.payload, envelope.payloadBase64 ? "base64" : "utf8");
}

test("any bytes under any properties become an envelope with the same bytes, and nothing throws", () => {
  const text = fc.option(fc.string({ unit: "binary", maxLength: 40 }), { nil: undefined });
  const parts = fc.record({
    content: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    messageId: text,
    type: text,
    correlationId: text,
    contentType: fc.oneof(
      text,
      fc.constantFrom("application/json", "application/cloudevents+json", "text/plain;"),
    ),
    contentEncoding: text,
    timestamp: fc.option(fc.oneof(fc.double(), fc.integer()), { nil: undefined }),
    priority: fc.option(fc.double(), { nil: undefined }),
    headers: fc.dictionary(
      fc.oneof(
        fc.string(),
        fc.constantFrom(
          "waybill-dispatch",
          "waybill-death",
          "waybill-version",
          "waybill-priority",
          "waybill-enqueued-at",
          "waybill-expires-at",
          "waybill-ordering-key",
          "task",
          "id",
          "type",
          "eta",
          "expires",
          "compression",
          "cloudEvents:specversion",
          "cloudEvents:id",
          "ce-type",
        ),
      ),
      fc.anything(),
    ),
  });
  const formats = fc.constantFrom(
    "json" as const,
    "nestjs" as const,
    "celery" as const,
    "cloudevents" as const,
  );
  fc.assert(
    fc.property(parts, formats, text, (part, decoder, untypedJob) => {
      const envelope = decode(part, { decoder, untypedJob });

      expect(envelope.id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      expect(envelope.type).not.toBe("");
      if (isUnreadable(envelope)) expect(bytesOf(envelope)).toEqual(part.content);
      for (const stored of [...Object.values(envelope), ...Object.values(envelope.headers)]) {
        if (typeof stored === "string") expect(stored).not.toContain("\0");
      }
      expect(envelope.dispatch).toBeGreaterThanOrEqual(1);
      expect(Number.isNaN(envelope.enqueuedAt.getTime())).toBe(false);
    }),
    { numRuns: 150 },
  );
});

// Headers and numbers.

test("our own headers are believed within bounds, whatever AMQP type they arrive as", () => {
  const headers = {
    "waybill-dispatch": { "!": "int64", value: 300 },
    "waybill-version": "2",
    "waybill-death": 1n,
    "waybill-ordering-key": "customer:42",
    "waybill-enqueued-at": 1_796_018_400_123,
    "waybill-expires-at": "2026-12-01T00:00:00Z",
    "waybill-priority": -7,
    "waybill-error": "dropped",
    tenant: "acme",
    "x-death": [{ count: 5 }],
  };

  const envelope = decode({ type: "t", messageId: uuid, headers });

  expect(envelope).toMatchObject({
    dispatch: 300,
    version: 2,
    death: 1,
    orderingKey: "customer:42",
    enqueuedAt: new Date(1_796_018_400_123),
    expiresAt: new Date("2026-12-01T00:00:00Z"),
    priority: -7,
  });
  expect({ ...envelope.headers }).toEqual({ tenant: "acme" });
});

test("forged headers of ours that make no sense count as absent", () => {
  const headers = {
    "waybill-dispatch": 2 ** 40,
    "waybill-version": -1,
    "waybill-death": "many",
    "waybill-ordering-key": "a\0b",
    "waybill-enqueued-at": Number.MAX_SAFE_INTEGER,
    "waybill-expires-at": { evil: true },
    "waybill-priority": 1e9,
    "waybill-on-terminal": "constructor",
  };

  expect(decode({ type: "t", headers })).toMatchObject({
    dispatch: 1,
    version: 1,
    death: 0,
    orderingKey: null,
    enqueuedAt: now,
    expiresAt: null,
    priority: null,
    onTerminal: null,
  });
});

test("only a message of ours asks for an event of its end, and only by a name that can be one", () => {
  const asked = (name: unknown, dispatch?: number): string | null =>
    decode({
      type: "t",
      headers: { "waybill-on-terminal": name, "waybill-dispatch": dispatch },
    }).onTerminal;

  expect(asked("report.ended", 2)).toBe("report.ended");
  expect(asked("report.ended")).toBeNull();
  for (const name of ["", "a b", "x".repeat(129), "__proto__", -5, { a: 1 }, null, "ended."]) {
    expect(asked(name, 2)).toBeNull();
  }
});

test.each([
  [1_796_014_867, new Date("2026-11-30T05:01:07Z")],
  [1_796_014_867_318, new Date("2026-11-30T05:01:07.318Z")],
  [0, now],
  [undefined, now],
  [4_000_000_000, now],
  [-5, now],
])(
  "the timestamp %s, in seconds or milliseconds, is never in the future",
  (timestamp, enqueuedAt) => {
    expect(decode({ type: "t", timestamp })).toMatchObject({ enqueuedAt });
  },
);

test.each([
  [0, null],
  [undefined, null],
  [5, 5],
  [300, null],
  [1.5, null],
])("the foreign priority %s is read as %s: many clients send 0 for none", (priority, expected) => {
  expect(decode({ type: "t", priority }).priority).toBe(expected);
});

test("a message of ours is read as such in a queue that declares another format", () => {
  const headers = { "waybill-dispatch": 2, "waybill-version": 1 };

  for (const decoder of ["nestjs", "celery", "cloudevents"] as const) {
    const envelope = decode({ type: "emails.welcome", messageId: uuid, headers }, { decoder });
    expect(isUnreadable(envelope)).toBe(false);
    expect(envelope.payload).toBe('{"to":"ada@example.com"}');
  }
});

test("a reason shows no control characters and no more than 500", () => {
  const envelope = decode({ type: "t", contentType: `\u001b[31m${"x".repeat(255)}\n` });

  expect(reasonOf(envelope)).toMatch(/^[\x20-\x7e…]{1,520}$/);
});
