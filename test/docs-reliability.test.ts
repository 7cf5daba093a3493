/** docs/reliability.md names tests as evidence: they have to exist. */

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(`${root}docs/reliability.md`, "utf8");

/** Every "[...](../test/file) `name`" of the page. */
const evidence = [...page.matchAll(/\]\(\.\.\/(test\/[^)]+\.ts)\) `([^`]+)`/g)].map(
  ([, file = "", name = ""]) => ({ file, name }),
);

test("every test that the reliability page names is in its file", () => {
  const missing = evidence.filter(({ file, name }) => {
    return !existsSync(root + file) || !readFileSync(root + file, "utf8").includes(name);
  });

  expect(evidence.length).toBeGreaterThan(50);
  expect(missing).toEqual([]);
});

test("every public report has a line with evidence", () => {
  const reports = [
    ...Array.from({ length: 36 }, (_, n) => n + 1),
    ...Array.from({ length: 4 }, (_, n) => n + 38),
  ].map((n) => `A${String(n).padStart(2, "0")}`);

  const without = reports.filter((id) => !new RegExp(`^\\| ${id} .*\\.ts\\) \``, "m").test(page));

  expect(without).toEqual([]);
});
