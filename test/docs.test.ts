/** Documentation that a command can contradict is checked by that command. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

const run =
  (script: string, ...args: string[]) =>
  (): string =>
    execFileSync(process.execPath, ["--conditions=@waybill/source", script, ...args], {
      cwd: root,
      encoding: "utf8",
      stdio: "pipe",
    });

test("the TypeScript of the documentation compiles", () => {
  expect(run("scripts/check-docs.ts")).not.toThrow();
});

test("the reference pages are what the code says", () => {
  expect(run("scripts/reference.ts", "--check")).not.toThrow();
});
