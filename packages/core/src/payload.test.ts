import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  decodePayload,
  encodePayload,
  jsonDepth,
  payloadBytesDefault,
  payloadDepthMax,
  payloadKeysMax,
} from "./payload.ts";

const limit = payloadBytesDefault;

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let n = 0; n < levels; n += 1) value = n % 2 === 0 ? [value] : { a: value };
  return value;
}

const cyclic: Record<string, unknown> = { list: [] };
(cyclic["list"] as unknown[]).push(cyclic);

/** 2^40 leaves if walked as a tree. */
let shared: unknown = ["leaf"];
for (let n = 0; n < 40; n += 1) shared = [shared, shared];

const ownProto = JSON.parse('{"a":{"__proto__":{"admin":true}}}') as unknown;

/** Each with the path that the refusal names. */
const refusals: readonly [string, unknown, string][] = [
  ["undefined", undefined, ""],
  ["a BigInt", { a: 1n }, "a"],
  ["a Date", { at: new Date() }, "at"],
  ["an invalid Date", { at: new Date(Number.NaN) }, "at"],
  ["NaN", { a: [Number.NaN] }, "a.0"],
  ["Infinity", { a: Infinity }, "a"],
  ["-Infinity", -Infinity, ""],
  ["a function", { a: () => 1 }, "a"],
  ["a class", { a: Date }, "a"],
  ["a symbol", { a: Symbol("x") }, "a"],
  ["undefined in an array", [1, undefined], "1"],
  ["a hole in an array", [1, , 3], "1"], // oxlint-disable-line no-sparse-arrays
  ["a very sparse array", Object.assign([], { length: 4_000_000_000 }), "0"],
  ["a NUL character", { a: "x\0y" }, "a"],
  ["a NUL character in a key", { "x\0y": 1 }, ""],
  ["a lone high surrogate", { a: "\ud800" }, "a"],
  ["a lone low surrogate", ["\udfff"], "0"],
  ["a lone surrogate in a key", { "\ud800": 1 }, ""],
  ["a cycle", cyclic, "list.0"],
  ["a Map", { a: new Map([[1, 2]]) }, "a"],
  ["a Set", { a: new Set([1]) }, "a"],
  ["a WeakMap", { a: new WeakMap() }, "a"],
  ["a RegExp", { a: /x/ }, "a"],
  ["an Error", { a: new Error("x") }, "a"],
  ["a Promise", { a: Promise.resolve(1) }, "a"],
  ["a Buffer", { a: Buffer.from("x") }, "a"],
  ["a typed array", { a: new Uint8Array(2) }, "a"],
  ["an ArrayBuffer", { a: new ArrayBuffer(2) }, "a"],
  ["a URL", { a: new URL("http://h") }, "a"],
  ["a boxed string", { a: Object("x") as unknown }, "a"],
  ["a boxed number", { a: Object(1) as unknown }, "a"],
  [
    "an instance of a class",
    {
      a: new (class Money {
        amount = 1;
      })(),
    },
    "a",
  ],
  ["an object with toJSON", { a: { toJSON: () => 1 } }, "a"],
  ["an own __proto__ key", ownProto, "a"],
  ["constructor.prototype", { constructor: { prototype: { admin: true } } }, ""],
  ["5,000 nested levels", nested(5_000), "a.0.".repeat(32).slice(0, -1)],
  ["65 nested levels", nested(65), `0${".a.0".repeat(31)}.a`],
  ["a text larger than the limit", { a: "x".repeat(limit) }, ""],
  ["a 65 kB key over a small limit", { ["k".repeat(300_000)]: 1 }, ""],
  [
    "more keys than the limit",
    Object.fromEntries(Array.from({ length: payloadKeysMax + 1 }, (_, n) => [`k${n}`, 1])),
    "",
  ],
  ["one array shared 2^40 times over", shared, ""],
  [
    "a getter that throws",
    {
      get a() {
        throw new Error("s3cret");
      },
    },
    "",
  ],
  [
    "a proxy that throws",
    new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("s3cret");
        },
      },
    ),
    "",
  ],
];

test("forty payloads that are not JSON are refused", () => {
  expect(refusals.length).toBeGreaterThanOrEqual(40);
});

test.each(refusals)("%s is refused as a payload, with its path", (_, value, path) => {
  const { issues } = encodePayload(value, limit);

  expect(issues?.[0]?.path).toBe(path);
  expect(issues?.[0]?.message).toMatch(/\S/);
  expect(JSON.stringify(issues)).not.toContain("s3cret");
});

test("every JSON value is accepted and comes back equal", () => {
  const json = fc.jsonValue({
    depthSize: "small",
    stringUnit: fc.constantFrom("a", "ä", "🦆", "\u2028", "\uffff", '"', "\\", "\n"),
  });
  fc.assert(
    fc.property(json, (value) => {
      fc.pre(jsonDepth(JSON.stringify(value)) <= payloadDepthMax);
      const encoded = encodePayload(value, limit);
      fc.pre(encoded.issues === undefined || !JSON.stringify(encoded.issues).includes("__proto__"));

      expect(encoded.issues).toBeUndefined();
      const decoded = decodePayload("text" in encoded ? encoded.text : "", limit);
      // JSON has one zero only.
      expect(decoded).toEqual({ value: JSON.parse(JSON.stringify(value)) as unknown });
    }),
  );
});

test("a payload of any kind is encoded to its own JSON or refused, and never throws", () => {
  fc.assert(
    fc.property(
      fc.anything({
        withBigInt: true,
        withDate: true,
        withMap: true,
        withSparseArray: true,
        withNullPrototype: true,
      }),
      (value) => {
        const encoded = encodePayload(value, limit);

        if (encoded.issues === undefined) expect(encoded.text).toBe(JSON.stringify(value));
        else expect(encoded.issues.length).toBeGreaterThan(0);
      },
    ),
  );
});

test("a key that is undefined is left out, as an optional field", () => {
  expect(encodePayload({ a: undefined, b: 1 }, limit)).toEqual({ text: '{"b":1}' });
});

test("a plain object of another realm is plain", () => {
  const foreign: unknown = runInNewContext("({ a: [1, { b: null }] })");

  expect(encodePayload(foreign, limit)).toEqual({ text: '{"a":[1,{"b":null}]}' });
});

test("all problems of a payload are reported, up to twenty", () => {
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`k${n}`, 1n]));

  expect(encodePayload({ a: 1n, b: new Date(), c: [Number.NaN] }, limit).issues).toHaveLength(3);
  expect(encodePayload(many, limit).issues).toHaveLength(20);
});

test("a payload of exactly the limit is accepted, one byte more is not, counted in UTF-8", () => {
  expect(encodePayload("ä".repeat(4), 10)).toEqual({ text: '"ääää"' });
  expect(encodePayload("ä".repeat(4), 9).issues?.[0]?.message).toContain("the limit is 9");
  expect(decodePayload('"ääää"', 9).issues?.[0]?.message).toBe("is larger than 9 bytes");
});

test("the depth of a text is that of its value", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const depthOf = (item: unknown): number =>
        typeof item === "object" && item !== null
          ? 1 + Math.max(0, ...Object.values(item).map(depthOf))
          : 0;

      expect(jsonDepth(JSON.stringify(value))).toBe(depthOf(value));
    }),
  );
});

test("a text of a million nested arrays is refused before it is parsed", () => {
  const { issues } = decodePayload("[".repeat(1_000_000), 8_000_000);

  expect(issues?.[0]?.message).toBe("is nested deeper than 64 levels");
});

test("64 levels are accepted at both ends", () => {
  const encoded = encodePayload(nested(payloadDepthMax), limit);

  expect("text" in encoded && decodePayload(encoded.text, limit)).toEqual({ value: nested(64) });
});

test.each([
  ['{"__proto__":{"polluted":true},"a":1}', { a: 1 }],
  ['{"\\u005f_proto__":{"polluted":true},"a":1}', { a: 1 }],
  ['{"a":{"b":[{"__proto__":{"polluted":true}}]}}', { a: { b: [{}] } }],
  ['{"constructor":{"prototype":{"polluted":true}},"a":1}', { a: 1 }],
  ['{"a":{"c\\u006fnstructor":{"prototype":{"polluted":true}}}}', { a: {} }],
  ['{"constructor":"Ferrari","prototype":"no. 5"}', { constructor: "Ferrari", prototype: "no. 5" }],
])("the payload %s cannot reach a prototype", (text, expected) => {
  const decoded = decodePayload(text, limit);

  expect(decoded).toEqual({ value: expected });
  const merged: unknown = Object.assign({}, "value" in decoded ? decoded.value : {});
  expect((merged as { polluted?: unknown }).polluted).toBeUndefined();
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

test("what is no JSON is refused without repeating it", () => {
  for (const text of [
    "",
    "  ",
    "s3cret",
    "{s3cret",
    "\ufeff{}",
    "NaN",
    "'a'",
    "[1,]",
    "{} {}",
    "\u0000",
  ]) {
    const { issues } = decodePayload(text, limit);

    expect(issues, text).toHaveLength(1);
    expect(JSON.stringify(issues)).not.toContain("s3cret");
  }
});

test("an object with more than ten thousand keys is refused when it arrives, too", () => {
  const text = (keys: number): string =>
    JSON.stringify(Object.fromEntries(Array.from({ length: keys }, (_, n) => [`k${n}`, 1])));

  expect(decodePayload(text(payloadKeysMax), limit).issues).toBeUndefined();
  expect(decodePayload(text(payloadKeysMax + 1), limit).issues).toHaveLength(1);
});

test("decoding never throws, whatever the text", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 100 }), (text) => {
      const decoded = decodePayload(text, limit);

      expect("value" in decoded || decoded.issues.length === 1).toBe(true);
    }),
  );
});
