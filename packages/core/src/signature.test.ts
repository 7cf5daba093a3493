import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createKeyRing } from "./key-ring.ts";
import { signatureOf, signatureProblem, type SignedParts } from "./signature.ts";

const secrets = Array.from({ length: 2 }, () => randomBytes(32).toString("base64"));
const keys = createKeyRing(`new:${secrets[0]}`);
const scope = "queue:emails" as const;

const message: SignedParts = {
  messageId: "0193b0d2-7f6e-7c8a-9d4e-0f1a2b3c4d5e",
  type: "email.welcome",
  correlationId: "c-1",
  contentType: "application/json",
  contentEncoding: undefined,
  timestamp: 1_700_000_000,
  priority: 3,
  headers: { "waybill-dispatch": 1, "waybill-version": 2, traceparent: "00-a-b-01" },
  content: Buffer.from('{"to":"ada@example.com"}'),
};

const signed = (parts: SignedParts, given = signatureOf(keys, scope, parts)): SignedParts => ({
  ...parts,
  headers: { ...parts.headers, "waybill-signature": given },
});

const kindOf = (parts: SignedParts, ring = keys): string | undefined =>
  signatureProblem(ring, [scope], parts)?.kind;

test("S7: a signed message is believed, also with what the broker adds on its way", () => {
  const onTheWay = {
    ...signed(message).headers,
    "x-death": [{ queue: "q", count: 1 }],
    "x-delivery-count": 2,
    timestamp_in_ms: 1_700_000_000_000,
  };

  expect(kindOf(signed(message))).toBeUndefined();
  expect(kindOf({ ...signed(message), headers: onTheWay })).toBeUndefined();
});

test("S7: no part of a message can be changed, left out, added or moved into another", () => {
  const changes: readonly Partial<SignedParts>[] = [
    { messageId: "0193b0d2-7f6e-7c8a-9d4e-0f1a2b3c4d5f" },
    { messageId: undefined },
    { type: "email.farewell" },
    { type: "email.welcomec-1", correlationId: undefined },
    { correlationId: undefined },
    { contentType: "text/plain" },
    { contentEncoding: "gzip" },
    { timestamp: 1_700_000_001 },
    { timestamp: undefined },
    { priority: 9 },
    { content: Buffer.from('{"to":"eve@example.com"}') },
    { content: Buffer.alloc(0) },
    { content: Buffer.concat([message.content, Buffer.from(" ")]) },
  ];
  const headers: readonly SignedParts["headers"][] = [
    { "waybill-dispatch": 2 },
    { "waybill-dispatch": "1" },
    { "waybill-dispatch": 1.5 },
    { "waybill-dispatch": undefined },
    { "waybill-expires-at": 1 },
    { "waybill-on-terminal": "user.promote" },
    { "waybill-slot": "waybill" },
    { "waybill-death": "1" },
    { traceparent: "00-a-c-01" },
    { tenant: "another" },
    { odd: [1] },
    { odd: null },
  ];

  const accepted = [
    ...changes.map((change) => ({ ...signed(message), ...change })),
    ...headers.map((more) => ({
      ...signed(message),
      headers: { ...signed(message).headers, ...more },
    })),
  ].filter((forged) => kindOf(forged) === undefined);

  // An AMQP header without a value does not exist: that one is the message without the header.
  expect(accepted).toEqual([]);
});

test("S7: two messages that differ have two signatures", () => {
  const text = fc.string({ maxLength: 6, unit: "binary" });
  const parts = fc.record({
    messageId: fc.option(text, { nil: undefined }),
    type: fc.option(text, { nil: undefined }),
    correlationId: fc.option(text, { nil: undefined }),
    contentType: fc.option(text, { nil: undefined }),
    contentEncoding: fc.option(text, { nil: undefined }),
    timestamp: fc.option(fc.integer(), { nil: undefined }),
    priority: fc.option(fc.nat(255), { nil: undefined }),
    headers: fc.dictionary(text, fc.oneof(text, fc.integer())),
    content: fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
  });
  // What the header table cannot tell apart, and what is not signed.
  const canonical = (given: SignedParts): string =>
    JSON.stringify([
      ...[given.messageId, given.type, given.correlationId, given.contentType].map((t) => t ?? ""),
      given.contentEncoding ?? "",
      given.timestamp ?? null,
      given.priority ?? null,
      Object.entries(given.headers)
        .filter(([name]) => !/^(x-.*|b?cc|timestamp_in_ms|waybill-signature)$/i.test(name))
        .map(([name, value]) => [name, value])
        .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
      given.content.toString("hex"),
    ]);

  fc.assert(
    fc.property(parts, parts, (a, b) => {
      const same = signatureOf(keys, scope, a) === signatureOf(keys, scope, b);
      expect(same).toBe(canonical(a) === canonical(b));
    }),
    { numRuns: 500 },
  );
});

test("S7: a signature for one queue, or for events, fits no other", () => {
  const forEvents = signed(message, signatureOf(keys, "event", message));

  expect(signatureProblem(keys, ["queue:orders"], signed(message))?.kind).toBe("wrong");
  expect(signatureProblem(keys, ["event"], signed(message))?.kind).toBe("wrong");
  expect(signatureProblem(keys, [scope], forEvents)?.kind).toBe("wrong");
  expect(signatureProblem(keys, [scope, "event"], forEvents)).toBeUndefined();
});

test("S7: after a change of keys both fit, and then the old one no more", () => {
  const old = createKeyRing(`old:${secrets[1]}`);
  const both = createKeyRing(`new:${secrets[0]} old:${secrets[1]}`);
  const byOld = signed(message, signatureOf(old, scope, message));

  expect(kindOf(byOld, both)).toBeUndefined();
  expect(kindOf(signed(message), both)).toBeUndefined();
  expect(signatureOf(both, scope, message)).toMatch(/^1:new:/);
  expect(signatureProblem(keys, [scope], byOld)).toEqual({
    kind: "unknown_key",
    reason: 'the message is signed with the key "old", which this worker does not have',
  });
});

test("S7: a key of the same id but other bytes does not fit", () => {
  expect(kindOf(signed(message), createKeyRing(`new:${secrets[1]}`))).toBe("wrong");
});

test.each([
  [undefined, "unsigned"],
  ["", "wrong"],
  [7, "wrong"],
  [["1:new:x"], "wrong"],
  [{ toString: "1:new:x" }, "wrong"],
  ["1:new:", "wrong"],
  [`1:new:${"A".repeat(43)}`, "wrong"],
  [`1:new:${"A".repeat(42)}`, "wrong"],
  [`1:new:${"A".repeat(1_000)}`, "wrong"],
  [`2:new:${"A".repeat(43)}`, "wrong"],
  [`1:__proto__:${"A".repeat(43)}`, "wrong"],
  [`1:constructor:${"A".repeat(43)}`, "unknown_key"],
  [`1:none:${"A".repeat(43)}`, "unknown_key"],
])("S7: %j is no signature", (given, kind) => {
  const { "waybill-signature": _, ...headers } = signed(message).headers;
  const forged = {
    ...message,
    headers: given === undefined ? headers : { ...headers, "waybill-signature": given },
  };

  expect(kindOf(forged)).toBe(kind);
});

test("S7: the signature of a fixed message is what it always was", () => {
  const fixed = createKeyRing(`k:${Buffer.alloc(32, 7).toString("base64")}`);

  expect(signatureOf(fixed, scope, message)).toBe(
    "1:k:IB3KXfZEKxEFBXtYUZj2HbH4wQwS242sn_QXIpkEhOc",
  );
});
