import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createKeyRing } from "./key-ring.ts";
import { isSealed, openPayload, sealPayload } from "./sealed-payload.ts";

const secrets = Array.from({ length: 2 }, () => randomBytes(32).toString("base64"));
const keys = createKeyRing(`new:${secrets[0]}`);
const identity = { id: "0193b0d2-7f6e-7c8a-9d4e-0f1a2b3c4d5e", type: "email.welcome", version: 1 };
const canary = "canary-4711";
const text = JSON.stringify({ to: canary });

const problemOf = (...given: Parameters<typeof openPayload>): string => {
  const result = openPayload(...given);
  if (result.issues === undefined) throw new Error("It was opened.");
  return result.issues.map(({ message }) => message).join();
};

test("S8: what was sealed opens to the same text", () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      const sealed = sealPayload(keys, identity, json);

      expect(isSealed(sealed)).toBe(true);
      expect(openPayload(keys, identity, sealed)).toEqual({ text: json });
    }),
  );
});

test("S8: a sealed payload is JSON that shows nothing of the text, and no two are alike", () => {
  const sealed = Array.from({ length: 200 }, () => sealPayload(keys, identity, text));

  const nonces = sealed.map((each) => {
    const parts = (JSON.parse(each) as { "waybill-sealed": string })["waybill-sealed"].split(":");
    expect(parts.slice(0, 2)).toEqual(["1", "new"]);
    return parts[2];
  });
  expect(new Set(nonces).size).toBe(200);
  expect(sealed.join()).not.toContain(canary);
  expect(Buffer.from(sealed[0] ?? "", "base64").toString("latin1")).not.toContain(canary);
});

test("S8: a sealed payload opens for no other id, type or version", () => {
  const sealed = sealPayload(keys, identity, text);

  for (const other of [
    { ...identity, id: "0193b0d2-7f6e-7c8a-9d4e-0f1a2b3c4d5f" },
    { ...identity, type: "email.farewell" },
    { ...identity, version: 2 },
  ]) {
    expect(problemOf(keys, other, sealed)).toMatch(/^does not open with the key "new"/);
  }
});

test("S8: no byte of it can be changed", () => {
  const sealed = sealPayload(keys, identity, text);
  const inner = (JSON.parse(sealed) as { "waybill-sealed": string })["waybill-sealed"];
  const [, , nonce = "", data = ""] = inner.split(":");

  for (const [what, length] of [
    [nonce, 12],
    [data, Buffer.from(data, "base64url").length],
  ] as const) {
    for (let at = 0; at < length; at += 1) {
      const bytes = Buffer.from(what, "base64url");
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      const turned = sealed.replace(what, bytes.toString("base64url"));
      expect(problemOf(keys, identity, turned)).toMatch(/^does not open/);
    }
  }
});

test("S8: a wrong, unknown or missing key is said without plaintext and key", () => {
  const sealed = sealPayload(keys, identity, text);

  const said = [
    problemOf(createKeyRing(`new:${secrets[1]}`), identity, sealed),
    problemOf(createKeyRing(`other:${secrets[1]}`), identity, sealed),
    problemOf(undefined, identity, sealed),
  ];

  expect(said).toEqual([
    'does not open with the key "new": it is damaged, was made with another key of that id, or for another job',
    'is encrypted with the key "new", which this process does not have; give it that key',
    'is encrypted with the key "new", and this process has no option encryption; give it that key',
  ]);
  const shown = said.join();
  for (const secret of [canary, ...secrets]) expect(shown).not.toContain(secret.slice(0, 10));
});

test("S8: after a change of keys both open, and the first seals", () => {
  const old = createKeyRing(`old:${secrets[1]}`);
  const both = createKeyRing(`new:${secrets[0]} old:${secrets[1]}`);

  expect(openPayload(both, identity, sealPayload(old, identity, text))).toEqual({ text });
  expect(sealPayload(both, identity, text)).toContain('"1:new:');
});

test.each([
  '{"waybill-sealed":1}',
  '{"waybill-sealed":"1:new:x:y"}',
  '{ "waybill-sealed" : "2:new:AAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAAAA"}',
  '{"waybill-sealed":"1:new:AAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAA","more":1}',
])("S8: %s is neither opened nor run as it is", (damaged) => {
  expect(problemOf(keys, identity, damaged)).toMatch(/^is encrypted in a form/);
});

test("S8: what is not sealed stays as it is", () => {
  for (const plain of ["null", "[]", '{"a":{"waybill-sealed":"x"}}', '"waybill-sealed"']) {
    expect(openPayload(undefined, identity, plain)).toEqual({ text: plain });
  }
});

test("S8: a payload that is too large once it is encrypted is refused", () => {
  expect(() => sealPayload(keys, identity, `"${"x".repeat(6_400_000)}"`)).toThrow(
    /bytes once it is encrypted, the limit is 8388608/,
  );
});

test("S8: the sealed form of another implementation opens", () => {
  const fixed = createKeyRing(`k:${Buffer.alloc(32, 7).toString("base64")}`);

  expect(
    openPayload(
      fixed,
      identity,
      '{"waybill-sealed":"1:k:AAECAwQFBgcICQoL:Y6OHUic4pC2UEx5oDpCSvBNKlZNh-ow"}',
    ),
  ).toEqual({ text: '{"n":1}' });
});
