import * as fc from "fast-check";
import { expect, test } from "vitest";
import { elementTexts, memberTexts } from "./json-text.ts";

const spaced = fc
  .tuple(fc.jsonValue(), fc.constantFrom(undefined, 1, "\t", " \r\n"))
  .map(([value, indent]) => ({ value, text: JSON.stringify(value, undefined, indent) }));

test("the parts of any JSON text parse to the parts of its value", () => {
  fc.assert(
    fc.property(spaced, ({ value, text }) => {
      if (Array.isArray(value)) {
        expect(elementTexts(text).map((part) => JSON.parse(part) as unknown)).toEqual(
          JSON.parse(text),
        );
      } else if (typeof value === "object" && value !== null) {
        const members = [...memberTexts(text)].map(([key, part]) => [
          key,
          JSON.parse(part) as unknown,
        ]);
        expect(members).toEqual(Object.entries(JSON.parse(text) as object));
      }
    }),
    { numRuns: 500 },
  );
});

test("numbers and escapes keep their own text", () => {
  const text =
    ' { "data" : {"n":12345678901234567890,"z":-0.0,"e":1e400,"s":"\\u0000\\/"} , "x" : "}]\\"," } ';

  expect(memberTexts(text).get("data")).toBe(
    '{"n":12345678901234567890,"z":-0.0,"e":1e400,"s":"\\u0000\\/"}',
  );
  expect(memberTexts(text).get("x")).toBe('"}]\\","');
});

test("of a key given twice the last counts, as for JSON.parse, also when it is escaped", () => {
  expect(memberTexts('{"a":1,"\\u0061":2}').get("a")).toBe("2");
});

test("empty arrays and objects have no parts", () => {
  expect(elementTexts(" [ ] ")).toEqual([]);
  expect([...memberTexts(" { } ")]).toEqual([]);
});
