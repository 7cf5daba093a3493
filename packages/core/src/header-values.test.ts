import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  applicationHeaders,
  headerInstant,
  headerInteger,
  headerIntegerWithin,
  headerName,
  headerOf,
  headerText,
  isReservedHeader,
} from "./header-values.ts";

test.each([
  5,
  5n,
  "5",
  "+5",
  Buffer.from("5"),
  { "!": "int64", value: 5 },
  { "!": "int64", value: "5" },
  { "!": "long", value: 5n },
])("the integer 5 is read from %o", (value) => {
  expect(headerInteger(value)).toBe(5);
});

test.each([
  5.5,
  Number.NaN,
  Infinity,
  2 ** 53,
  "5.0",
  "0x5",
  "",
  " 5",
  "5e1",
  "9".repeat(30),
  true,
  null,
  undefined,
  [],
  [5],
  {},
  { value: 5 },
  { "!": "int64", value: { "!": "int64", value: { "!": "int64", value: 5 } } },
  Symbol("5"),
])("no integer is read from %o", (value) => {
  expect(headerInteger(value)).toBeUndefined();
});

test("an integer outside its bounds counts as absent", () => {
  expect(headerIntegerWithin(0, 1, 10)).toBeUndefined();
  expect(headerIntegerWithin(11, 1, 10)).toBeUndefined();
  expect(headerIntegerWithin("10", 1, 10)).toBe(10);
});

test("instants are read from seconds, milliseconds and ISO 8601, without a zone as UTC", () => {
  const expected = new Date("2026-11-30T05:01:07Z");

  for (const value of [
    1_796_014_867,
    1_796_014_867_000,
    "1796014867",
    { "!": "timestamp", value: 1_796_014_867 },
    "2026-11-30T05:01:07Z",
    "2026-11-30T05:01:07",
    "2026-11-30T06:01:07+01:00",
    "2026-11-30 05:01:07.000000",
  ]) {
    expect(headerInstant(value), JSON.stringify(value)).toEqual(expected);
  }
});

test("instants before 2000, beyond 9999 and in words count as absent", () => {
  for (const value of [
    0,
    -1,
    1,
    Number.MAX_SAFE_INTEGER,
    "tomorrow",
    "2026",
    "1970-01-01T00:00:00Z",
    "2026-13-45T99:99:99Z",
    null,
    {},
  ]) {
    expect(headerInstant(value), JSON.stringify(value)).toBeUndefined();
  }
});

test("headers of the application become text, whatever AMQP type they had", () => {
  const headers = {
    text: "x",
    int: 5,
    long: 1_099_511_627_776n,
    double: 1.5,
    flag: true,
    bytes: Buffer.from("1.5"),
    when: { "!": "timestamp", value: 1_796_014_867 },
    money: { "!": "decimal", value: { places: 1, digits: 123 } },
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  };

  expect({ ...applicationHeaders(headers) }).toEqual({
    text: "x",
    int: "5",
    long: "1099511627776",
    double: "1.5",
    flag: "true",
    bytes: "1.5",
    when: "2026-11-30T05:01:07.000Z",
    money: "12.3",
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  });
});

test("headers that are Waybill's, the broker's or no text are left out", () => {
  const headers = Object.assign(Object.create(null) as object, {
    "waybill-dispatch": 7,
    "Waybill-Death": 1,
    "x-death": [],
    "X-Delay": "5",
    CC: "other",
    BCC: ["other"],
    none: null,
    list: [1],
    table: {},
    nan: Number.NaN,
    nul: "a\0b",
    lone: "\ud800",
    "": "x",
    "a\nb": "x",
    ["n".repeat(129)]: "x",
    raw: Buffer.from([0xff]),
  });
  Object.defineProperty(headers, "__proto__", { value: "x", enumerable: true });

  expect(Object.keys(applicationHeaders(headers as Record<string, unknown>))).toEqual([]);
});

test("headers that would not fit a frame are left out, the others stay", () => {
  const headers = {
    huge: "x".repeat(200_000),
    ...Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`h${n}`, "x".repeat(200)])),
  };

  const kept = applicationHeaders(headers);

  expect(kept["huge"]).toBeUndefined();
  expect(Object.keys(kept)).toHaveLength(64);
  expect(JSON.stringify(kept).length).toBeLessThan(20_000);
});

test("names of Object.prototype are no headers", () => {
  for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
    expect(headerOf({}, name)).toBeUndefined();
  }
});

test("reserved names are reserved in any case", () => {
  for (const name of ["waybill-x", "WAYBILL-X", "x-match", "X-Y", "cc", "CC", "BCC", "__proto__"]) {
    expect(isReservedHeader(name), name).toBe(true);
  }
  for (const name of ["tenant", "traceparent", "success", "xray", "waybill"]) {
    expect(isReservedHeader(name), name).toBe(false);
  }
});

test("reading a header never throws, whatever it holds", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ unit: "binary" }), fc.anything()),
      fc.anything(),
      (headers, value) => {
        for (const text of Object.values(applicationHeaders(headers))) {
          expect(text.isWellFormed() && !text.includes("\0")).toBe(true);
        }
        expect(["string", "undefined"].includes(typeof headerText(value))).toBe(true);
        headerInstant(value);
        headerName(value, 255);
      },
    ),
  );
});
