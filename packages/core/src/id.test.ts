import * as fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalUuid, derivedId, newJobId } from "./id.ts";

test("a job id is a UUIDv7, and later ones sort after earlier ones", () => {
  const ids = Array.from({ length: 200 }, newJobId);

  for (const id of ids) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a UUID has one canonical form, whatever its case and dashes", () => {
  fc.assert(
    fc.property(fc.uuid(), (uuid) => {
      expect(canonicalUuid(uuid)).toBe(uuid);
      expect(canonicalUuid(uuid.toUpperCase())).toBe(uuid);
      expect(canonicalUuid(uuid.replaceAll("-", ""))).toBe(uuid);
    }),
  );
});

test("anything but a UUID has no canonical form", () => {
  for (const text of [
    "",
    "order-42",
    "g".repeat(32),
    `${newJobId()}\n`,
    ` ${newJobId()}`,
    "0".repeat(31),
  ]) {
    expect(canonicalUuid(text)).toBeUndefined();
  }
});

test("a derived id is a UUIDv5 and depends on every part and on where the parts are split", () => {
  const parts = fc.array(fc.string({ unit: "binary", maxLength: 20 }), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(parts, parts, (one, other) => {
      const id = derivedId(...one);

      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(derivedId(...one)).toBe(id);
      // Lone surrogates become one and the same replacement character in UTF-8.
      const bytes = (list: readonly string[]): string =>
        JSON.stringify(list.map((each) => each.toWellFormed()));
      expect(derivedId(...other) === id).toBe(bytes(one) === bytes(other));
    }),
  );
});

test("derived ids never change from one release to the next", () => {
  expect(derivedId("emails", "emails.welcome", "order-42")).toBe(
    "db9c2b24-f1d0-5d13-b3fd-cc4cfd10c5b8",
  );
});
