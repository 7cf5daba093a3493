/**
 * Messages that no producer should send, made from named families: none of them is a payload of the
 * job `strict`, an object with a whole number `n` and nothing else.
 */

import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";

/** A body with what the message says about it. */
export interface HostileMessage {
  readonly family: string;
  readonly content: Buffer;
  readonly properties: Readonly<Record<string, unknown>>;
}

const text = (content: string): Buffer => Buffer.from(content);
const good = '{"n":1}';

/** Decompressed it has 2 GiB, in 32 members; compressed 2 MiB. */
const bomb = Buffer.concat(Array<Buffer>(32).fill(gzipSync(Buffer.alloc(64 * 1024 * 1024))));

const depths = [64, 65, 100, 1_000, 10_000, 100_000, 1_000_000];

const bodies: Readonly<Record<string, readonly Buffer[]>> = {
  "nesting of lists": depths.map((n) => text("[".repeat(n) + "]".repeat(n))),
  "nesting of objects": depths.map((n) => text('{"n":'.repeat(n) + "1" + "}".repeat(n))),
  "nesting that never ends": depths.map((n) => text('[{"n":'.repeat(n))),
  "many keys": [100, 10_000, 10_001, 50_000, 300_000].map((n) =>
    text(`{${Array.from({ length: n }, (_, key) => `"k${key}":1`).join()}}`),
  ),
  "many elements": [1_000, 100_000, 1_000_000].map((n) => text(`[${"1,".repeat(n)}1]`)),
  "long strings": [1_000, 1_000_000, 8_000_000, 8_388_607, 8_388_608, 9_000_000].map((n) =>
    text(`"${"x".repeat(n)}"`),
  ),
  "long keys": [1_000, 1_000_000].map((n) => text(`{"${"k".repeat(n)}":1}`)),
  "long escapes": [1_000, 1_000_000].map((n) => text(`"${"\\u0041".repeat(n)}"`)),
  "nothing but spaces": [0, 1, 1_000, 1_000_000].map((n) => text(" ".repeat(n))),
  "huge numbers": ["1e400", "-1e400", "9".repeat(400), "1".repeat(1_000_000), "0.1e9999", "1e-9999"]
    .concat(["12345678901234567890", "9007199254740993", "1.5", "NaN", "Infinity", "0x1", "01"])
    .map((number) => text(`{"n":${number}${number.startsWith("1e-") ? ',"m":1' : ""}}`)),
  "keys that are there twice": [
    '{"n":1,"n":"x"}',
    '{"n":1,"n":null}',
    '{"n":1,"\\u006e":[]}',
    `{"n":1,"n":{}}`,
  ].map(text),
  "lone surrogates": ['{"n":"\\ud800"}', '{"\\udfff":1}', '{"n":1,"\\ud800":1}', '"\\ud83e"'].map(
    text,
  ),
  "broken UTF-8": [
    [0xff],
    [0xc3],
    [0xc3, 0x28],
    [0xe2, 0x82],
    [0xf0, 0x9f, 0xa6],
    [0xed, 0xa0, 0x80],
    [0xc0, 0x80],
    [0xf8, 0x88, 0x80, 0x80, 0x80],
    [0xf4, 0x90, 0x80, 0x80],
  ].flatMap((bytes) => [
    Buffer.from(bytes),
    Buffer.concat([text('{"n":"'), Buffer.from(bytes), text('"}')]),
  ]),
  "a text that was cut": Array.from({ length: 50 }, (_, at) =>
    text('{"n":1,"m":"zoë🦆","list":[1,2.5e3,null,true,{}]}').subarray(0, at),
  ),
  "other encodings": [
    Buffer.from(good, "utf16le"),
    Buffer.from(good, "utf16le").swap16(),
    Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(good, "utf16le")]),
    Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text(good)]),
    Buffer.from('{"n":"é"}', "latin1"),
    Buffer.from("eyJuIjoxfQ==", "utf8"),
  ],
  "NUL and control characters": [
    "\0",
    '{"n":\0 1}',
    '{"n":"\0"}',
    '{"n":"\u0001"}',
    "\u001b[2J",
    `${good}\0`,
  ].map(text),
  "other formats": [
    "<n>1</n>",
    "n: 1",
    "n=1&m=2",
    'O:1:"A":1:{s:1:"n";i:1;}',
    "\u0080\u0004K*.",
    "%PDF-1.7",
    "PK\u0003\u0004",
    "(1).constructor.constructor('return process')()",
    "${7*7}",
    "{{7*7}}",
    "'; drop schema waybill cascade; --",
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><n>&a;</n>',
    '{"$ref":"#"}',
    '{"__class__":"os.system","n":1}',
    '{"n":{"$gt":""}}',
  ].map(text),
  "almost JSON": [
    "{n:1}",
    "{'n':1}",
    '{"n":1,}',
    '{"n":1}{}',
    '{"n":1}//',
    "undefined",
    "[1,2",
    "tru",
    '{"n"}',
    '{"n":+1}',
  ].map(text),
  "JSON of another shape": [
    "null",
    "true",
    "0",
    '""',
    "[]",
    "{}",
    '{"n":"1"}',
    '{"n":[1]}',
    '{"m":1}',
    '{"n":1,"m":1}',
  ].map(text),
};

const described: readonly (readonly [family: string, content: Buffer, properties: object])[] = [
  ...[
    "application/x-python-serialize",
    "application/x-java-serialized-object",
    "application/xml",
    "text/html",
    "application/msgpack",
    "application/json; charset=utf-16",
    "application/json; charset=shift_jis",
    `application/json; charset="${"x".repeat(200)}"`,
    "application/json\u0000",
    "../../json",
  ].map((contentType) => ["a content type that is not read", text(good), { contentType }] as const),
  ...["gzip", "deflate", "br", "zstd", "base64", "gzip, gzip", "aes128gcm"].map(
    (contentEncoding) => ["an encoding that is not read", text(good), { contentEncoding }] as const,
  ),
  ["a gzip bomb", bomb, { contentEncoding: "gzip" }],
  ["a gzip bomb", bomb, { contentEncoding: "gzip", contentType: "application/json" }],
  ["a gzip bomb", bomb, { headers: { compression: "application/x-gzip" } }],
  ["a gzip bomb", bomb, {}],
  ["a gzip bomb", gzipSync(bomb), { contentEncoding: "gzip" }],
  ["compressed", deflateSync(good), { contentEncoding: "deflate" }],
  ["compressed", brotliCompressSync(good), { contentEncoding: "br" }],
  ["compressed", gzipSync(good), { headers: { compression: "zlib" } }],
  [
    "encrypted for others",
    text('{"waybill-sealed":"1:k:AAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAAAA"}'),
    {},
  ],
  ["encrypted for others", text('{"waybill-sealed":{"n":1}}'), {}],
];

/** At least 200 of them. */
export const hostileMessages: readonly HostileMessage[] = [
  ...Object.entries(bodies).flatMap(([family, contents]) =>
    contents.map((content) => ({ family, content, properties: {} })),
  ),
  ...described.map(([family, content, properties]) => ({
    family,
    content,
    properties: { ...properties },
  })),
];
