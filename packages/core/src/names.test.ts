import * as fc from "fast-check";
import { expect, test } from "vitest";
import { NameError } from "./errors.ts";
import {
  checkKey,
  checkQueueName,
  checkSchemaName,
  checkTopologyPrefix,
  checkTypeName,
} from "./names.ts";

const checks = { checkQueueName, checkTypeName, checkSchemaName, checkTopologyPrefix };

const characters = [
  '"',
  "'",
  ";",
  "\\",
  "`",
  "$",
  "%",
  "*",
  "#",
  "?",
  "&",
  "|",
  "<",
  ">",
  "(",
  ")",
  "[",
  "]",
  "{",
  "}",
  "=",
  "+",
  ",",
  "!",
  "@",
  "^",
  "~",
  " ",
  "\t",
  "\n",
  "\r",
  "\0",
  "\u0007",
  "\u001b",
  "\u007f",
  "\u0085",
  "\u00a0",
  "\u200b",
  "\u200d",
  "\u202e",
  "\u2028",
  "\ufeff",
  "\ud800",
  "\udfff",
  "\uffff",
  "ä",
  "ß",
  "İ",
  "ſ",
  "\u212a",
  "é",
  "日",
  "🦆",
];
const texts = [
  "",
  ".",
  "..",
  "-",
  "_",
  "a..b",
  "a.",
  ".a",
  "constructor",
  "toString",
  "__proto__",
  "valueOf",
  "hasOwnProperty",
  "'; drop table waybill.outbox; --",
  '" or 1=1',
  "${x}",
  "../../etc/passwd",
  "<script>alert(1)</script>",
  "a".repeat(256),
  "%00",
  "a\n",
];
/** Each odd character alone, in front, in the middle and at the end, and the odd texts. */
const hostile = [...texts, ...characters.flatMap((c) => [c, `${c}a`, `a${c}b`, `a${c}`])];

test("hostile names are refused everywhere, with an error that shows no more than 80 characters", () => {
  expect(hostile.length).toBeGreaterThanOrEqual(200);
  for (const check of Object.values(checks)) {
    for (const name of hostile) {
      if (check === checkSchemaName && name === "_") continue;
      expect(() => check(name), JSON.stringify(name)).toThrow(NameError);
    }
  }
  expect(() => checkQueueName("!".repeat(10_000))).toThrow(/^.{0,260}$/);
});

test("a value that is no text is refused as a name", () => {
  for (const value of [undefined, null, 1, 1n, true, {}, [], ["a"], Symbol("a"), () => "a"]) {
    for (const check of Object.values(checks)) {
      expect(() => check(value as string)).toThrow(NameError);
    }
    expect(() => checkKey("ordering key", value as string)).toThrow(NameError);
  }
});

test("an accepted name survives quoting, routing and a round trip unchanged", () => {
  const name = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,20}(\.[a-z0-9][a-z0-9_-]{0,10}){0,3}$/);
  fc.assert(
    fc.property(name, (text) => {
      fc.pre(!(text in Object.prototype) && !text.endsWith(".dlq") && !/^amq(\.|$)/.test(text));

      expect(checkQueueName(text)).toBe(text);
      expect(checkTypeName(text)).toBe(text);
      if (text.length <= 40) expect(checkTopologyPrefix(text)).toBe(text);
      expect(text).toMatch(/^[\x21-\x7e]+$/);
      expect(text).not.toMatch(/["'\\*#;]/);
    }),
  );
});

test("names end at their limits: 63 for queues, 128 for types, 40 for schemas and prefixes", () => {
  const a = (length: number): string => "a".repeat(length);

  expect([checkQueueName(a(63)), checkTypeName(a(128)), checkSchemaName(a(40))]).toHaveLength(3);
  expect(() => checkQueueName(a(64))).toThrow(NameError);
  expect(() => checkTypeName(a(129))).toThrow(NameError);
  expect(() => checkSchemaName(a(41))).toThrow(NameError);
  expect(() => checkTopologyPrefix(a(41))).toThrow(NameError);
});

test("names that a server keeps for itself are refused: .dlq, pg_ and amq", () => {
  expect(() => checkQueueName("emails.dlq")).toThrow(/dead-letter/);
  expect(() => checkSchemaName("pg_waybill")).toThrow(/PostgreSQL keeps/);
  expect(() => checkTopologyPrefix("amq")).toThrow(/RabbitMQ keeps/);
  expect(() => checkTopologyPrefix("amq.waybill")).toThrow(/RabbitMQ keeps/);
  expect(checkTopologyPrefix("amqp")).toBe("amqp");
});

test("a key is 1 to 255 bytes of well-formed text without control characters", () => {
  expect(checkKey("ordering key", "customer:42/ä 🦆")).toBe("customer:42/ä 🦆");
  expect(checkKey("ordering key", "ä".repeat(127))).toHaveLength(127);
  for (const key of ["", "ä".repeat(128), "a\0", "a\nb", "\u007f", "\ud800"]) {
    expect(() => checkKey("ordering key", key)).toThrow(NameError);
  }
});
