import { expect, test } from "vitest";

import { type OutgoingProperties, prepareMessage } from "./outgoing-message.ts";

function prepare(properties: Partial<OutgoingProperties>, content: unknown = Buffer.from("{}")) {
  return prepareMessage({
    key: 1,
    exchange: "x",
    routingKey: "k",
    content: content as Buffer,
    properties: { messageId: "m", type: "t", headers: {}, ...properties },
  });
}

test("every message is persistent and mandatory, and whole numbers travel as int64", () => {
  const prepared = prepare({
    headers: {
      a: 1,
      b: 2 ** 40,
      c: 1.5,
      d: 5n,
      e: null,
      f: [1, "x"],
      g: { h: true },
      i: undefined,
    },
  });

  expect(prepared).toMatchObject({
    options: {
      persistent: true,
      mandatory: true,
      headers: {
        a: { "!": "int64", value: 1 },
        b: { "!": "int64", value: 2 ** 40 },
        c: { "!": "double", value: 1.5 },
        d: { "!": "int64", value: 5n },
        e: null,
        f: [{ "!": "int64", value: 1 }, "x"],
        g: { h: true },
      },
    },
  });
});

const refused: readonly [name: string, properties: Partial<OutgoingProperties>, reason: RegExp][] =
  [
    ["a forged x-death", { headers: { "x-death": ["garbage"] } }, /x-death belongs to the broker/],
    ["CC", { headers: { CC: "q" } }, /CC belongs/],
    ["a Date", { headers: { at: new Date(0) } }, /not plain/],
    ["NaN", { headers: { n: Number.NaN } }, /holds NaN/],
    ["a function", { headers: { f: () => 1 } }, /holds a function/],
    ["a bigint beyond int64", { headers: { n: 2n ** 63n } }, /beyond int64/],
    ["half a surrogate pair", { headers: { s: "\ud800" } }, /surrogate/],
    ["a tagged value", { headers: { s: { "!": "void" } } }, /named !/],
    ["64 KiB of headers", { headers: { s: "x".repeat(65_536) } }, /exceed/],
    ["a long header name", { headers: { ["n".repeat(256)]: 1 } }, /more than 255 bytes/],
    ["a long type", { type: "é".repeat(128) }, /type has more than 255 bytes/],
    ["milliseconds", { timestamp: 1_700_000_000_000 }, /timestamp/],
    ["a negative priority", { priority: -1 }, /priority/],
  ];

test.each(refused)("%s is refused before it reaches the channel", (_name, properties, reason) => {
  expect(prepare(properties)).toMatch(reason);
});

test("a cycle, a body that is no Buffer and a body over 16 MiB are refused", () => {
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;

  expect(prepare({ headers: cycle })).toMatch(/nests deeper/);
  expect(prepare({}, new Uint8Array(2))).toMatch(/not a Buffer/);
  expect(prepare({}, Buffer.alloc(16 * 1024 * 1024 + 1))).toMatch(/at most/);
});
