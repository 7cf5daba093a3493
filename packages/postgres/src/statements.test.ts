import { NameError } from "@waybill/core";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { questionMarksOf, templateOf } from "./adapters/placeholders.ts";
import { queries } from "./sql.generated.ts";
import { inSchema, statementsFor, wakeChannel } from "./statements.ts";

test("the default schema's statements are the files as they stand", () => {
  for (const [name, { name: prepared, text }] of Object.entries(statementsFor())) {
    expect(prepared).toBe(name);
    expect(text).toBe(queries[name as keyof typeof queries]);
  }
});

test("another schema's statements are quoted, and prepared under names of their own that PostgreSQL does not cut", () => {
  const schema = "s".repeat(40);

  const all = Object.values(statementsFor(schema));

  expect(new Set(all.map((statement) => statement.name)).size).toBe(all.length);
  for (const { name } of all) expect(name.length).toBeLessThanOrEqual(63);
  expect(statementsFor(schema).enqueue_jobs.text).toContain(`from "${schema}".enqueue(`);
  expect(inSchema("a.waybill_x 'waybill.y' waybill.z", "b")).toBe(`a.waybill_x '"b".y' "b".z`);
  expect(wakeChannel("b")).toBe("b.wake");
});

test("S1: two schemas whose names begin alike never share the name of a prepared statement", () => {
  const begin = "s".repeat(39);

  const names = ["a", "b"].flatMap((end) =>
    Object.values(statementsFor(`${begin}${end}`)).map(({ name }) => name),
  );

  expect(names.filter((name, n) => names.indexOf(name) !== n)).toEqual([]);
});

test("a name that is no schema's reaches no statement", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 70 }), (name) => {
      if (/^[a-z_][a-z0-9_]{0,39}$/.test(name)) return;
      expect(() => inSchema("select from waybill.job", name)).toThrow(NameError);
    }),
    { numRuns: 100 },
  );
});

test("placeholders become a template's gaps or question marks, and nothing else changes", () => {
  const text = "select ($1::text)::jsonb, $2::text, 'a?' , $3";

  expect([...templateOf(text)]).toEqual(["select (", "::text)::jsonb, ", "::text, 'a?' , ", ""]);
  expect(templateOf(text).raw).toEqual([...templateOf(text)]);
  expect(questionMarksOf(text)).toBe("select (?::text)::jsonb, ?::text, 'a\\?' , ?");
});
