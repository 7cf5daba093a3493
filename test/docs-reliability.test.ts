/** docs/reliability.md names tests as evidence: they have to exist. */

import { existsSync, globSync, readFileSync } from "node:fs";
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

/** The catalogue of faults: how many each chapter has. */
const chapters: Readonly<Record<string, number>> = {
  A: 7,
  B: 9,
  C: 11,
  D: 8,
  E: 9,
  F: 7,
  G: 6,
  H: 5,
  "I-": 3,
  J: 5,
  K: 2,
};
const faults = Object.entries(chapters).flatMap(([chapter, count]) =>
  Array.from({ length: count }, (_, n) => `${chapter}${n + 1}`),
);

const testFiles = globSync(["test/**/*.test.ts", "packages/*/src/**/*.test.ts"], { cwd: root })
  .filter((path) => !path.includes("node_modules"))
  .toSorted();

/** A fault, a public report, or a fact about RabbitMQ or PostgreSQL. */
const id = String.raw`(?:[A-K][1-9]\d?|I-[1-3]|A\d\d|[RP]\d{1,2})`;
const prefix = new RegExp(`["\`](${id}(?:, ${id})*): `, "g");

/** Files by the faults that their tests' names begin with. */
const filesOf = new Map<string, Set<string>>();
for (const path of testFiles) {
  for (const [, ids = ""] of readFileSync(root + path, "utf8").matchAll(prefix)) {
    for (const one of ids.split(", ")) filesOf.set(one, (filesOf.get(one) ?? new Set()).add(path));
  }
}

test("a name that begins with faults or reports has them in one form, so that they can be run alone", () => {
  const wrong = testFiles.flatMap((path) => {
    const names = readFileSync(root + path, "utf8").matchAll(
      new RegExp(
        `["\`]\\(?${id}[ ,:)][^"\`]*|["\`][^"\`\n]{20,}\\(${id}(?:, ${id})*\\)(?=["\`])`,
        "g",
      ),
    );
    return [...names]
      .map(([text]) => text)
      .filter((text) => text.search(prefix) !== 0)
      .map((text) => `${path}: ${text}`);
  });

  expect(wrong).toEqual([]);
});

test("every fault has a line that names every file with a test of it, or says that there is none", () => {
  const lines = new Map(
    [...page.matchAll(/^\| (\S+) .*\|$/gm)].map(([line, one = ""]) => [one, line]),
  );
  const linked = (line: string): string[] =>
    [...line.matchAll(/\]\(\.\.\/([^)]+)\)/g)].map(([, path = ""]) => path).toSorted();
  const wrong = faults.filter((fault) => {
    const line = lines.get(fault);
    const files = [...(filesOf.get(fault) ?? [])].toSorted();
    if (line === undefined || linked(line).join() !== files.join()) return true;
    // Without a test the last column has to say so.
    return files.length === 0 && /\|\s*\|$/.test(line);
  });

  expect(faults).toHaveLength(72);
  expect(wrong.map((fault) => ({ fault, files: [...(filesOf.get(fault) ?? [])] }))).toEqual([]);
});
