/**
 * Bodies that no client should send. The list is fixed, so that a failure can be looked at again;
 * each is small enough to be printed but for the few whose size is the point.
 */

const fragments = [
  "{",
  "[",
  '"',
  "\\",
  ":",
  ",",
  "}",
  "]",
  "-",
  "+",
  ".",
  "e",
  "0",
  "tru",
  "nul",
  "NaN",
  "Infinity",
  "undefined",
  "'a'",
  "/*x*/",
  "//x",
  "<a/>",
  "a: 1",
  "---",
  'O:1:"A":0:{}',
  "%PDF-1.7",
  "\ufeff{}",
  "\u2028",
  "\u00a0{}",
  "{}{}",
  "[] []",
  "01",
  "1.",
  ".1",
  "1e",
  "0x10",
  "--1",
  '"\t"',
  '"\\x"',
  '"\\u12"',
  '"\\ud800',
  "[1,]",
  "[,1]",
  '{"a"}',
  '{"a":}',
  "{a:1}",
  '{"a":1,}',
  "{'a':1}",
  '{"a" 1}',
  "[1 2]",
];

/** Parse well, and then damage the careless: they run, with nothing polluted and nothing lost. */
const traps = [
  '{"__proto__":{"polluted":true}}',
  '{"\\u005f\\u005fproto__":{"polluted":true}}',
  '{"a":{"__proto__":{"polluted":true}}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '[{"__proto__":[]}]',
  '{"toString":1,"valueOf":1,"hasOwnProperty":1,"toJSON":1,"then":1}',
  '{"\\u0000":"\\u0000"}',
  '{"a":"\\ud800"}',
  '{"a":1,"a":2}',
  "12345678901234567890",
  "1e400",
  "-0.0",
  "null",
  "[]",
  "{}",
  '""',
  "true",
  '"\\uffff\\ufdd0"',
];

const repeated = (unit: string, times: number): string => unit.repeat(times);

const deep = [65, 100, 1_000, 10_000, 100_000].flatMap((levels) => [
  repeated("[", levels) + repeated("]", levels),
  repeated("[", levels),
  repeated('{"a":', levels) + "1" + repeated("}", levels),
  repeated('[{"a":', levels),
]);

const wide = [
  `{${Array.from({ length: 20_000 }, (_, n) => `"k${n}":1`).join(",")}}`,
  `[${repeated("[],", 100_000)}[]]`,
  `"${repeated("\\u0041", 200_000)}"`,
  repeated("1", 300_000),
  repeated(" ", 300_000),
  `"${repeated("🦆", 100_000)}`,
];

const binary = [
  [0x00],
  [0x7b, 0x00, 0x7d],
  [0xff],
  [0xfe, 0xff],
  [0xff, 0xfe],
  [0xc3],
  [0xc3, 0x28],
  [0xe2, 0x82],
  [0xf0, 0x9f, 0xa6],
  [0xed, 0xa0, 0x80],
  [0xc0, 0x80],
  [0xf8, 0x88, 0x80, 0x80, 0x80],
  [0x1f, 0x8b, 0x08],
  [0x78, 0x9c],
  [0x80, 0x04, 0x4b, 0x2a, 0x2e],
  [0x0a, 0x03, 0x66, 0x6f, 0x6f],
  [0x1b, 0x5b, 0x32, 0x4a],
].map((bytes) => Buffer.from(bytes));

const encoded = ['{"to":"ä"}', "[1,2]", '"x"'].flatMap((text) => [
  Buffer.from(text, "utf16le"),
  Buffer.from(text, "utf16le").swap16(),
  Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]),
]);

const sample = Buffer.from('{"to":"zoë@example.com","list":[1,-2.5e3,null,true,{"a":"🦆"}]}');
/** A good body cut short, and with one byte turned, at every few bytes. */
const damaged = Array.from(sample.keys()).flatMap((at) => {
  const turned = Buffer.from(sample);
  turned[at] = (turned[at] ?? 0) ^ 0x80;
  return [sample.subarray(0, at), turned];
});

/** 200 bodies: they cannot be read, or are no more than JSON. */
export const hostileBodies: readonly Buffer[] = [
  ...[...fragments, ...traps, ...deep, ...wide].map((text) => Buffer.from(text)),
  ...binary,
  ...encoded,
  ...damaged,
].slice(0, 200);
