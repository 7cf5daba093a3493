import { ConfigError } from "@waybill/core";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { decodeCursor, encodeCursor } from "./page-cursor.ts";

test("a cursor comes back as it was made", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "binary", maxLength: 20 }), { maxLength: 4 }),
      (parts) => {
        const wellFormed = parts.map((part) => part.toWellFormed());
        const shapes = parts.map(() => /^[^]*$/);
        expect(decodeCursor("list", encodeCursor(wellFormed), shapes)).toEqual(wellFormed);
      },
    ),
    { numRuns: 50 },
  );
});

test("any other text is a ConfigError, never another one", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 60 }), (cursor) => {
      expect(() => decodeCursor("list", cursor, [/^never$/])).toThrow(ConfigError);
    }),
    { numRuns: 50 },
  );
});
