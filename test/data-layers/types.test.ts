import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Writes the code of the guide to files, each under the name in its first line. */
function extractGuide(): string[] {
  const folder = at("dist/guide");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(`${folder}/generated`, { recursive: true });
  writeFileSync(`${folder}/generated/client.ts`, 'export * from "../../prisma/client.ts";\n');
  const guide = readFileSync(at("../../docs/guides/data-layers.md"), "utf8");
  const blocks = [...guide.matchAll(/^```typescript\n\/\/ ([\w-]+\.ts)\n([\s\S]*?)^```/gm)];
  for (const [, name = "", code = ""] of blocks) writeFileSync(`${folder}/${name}`, code);
  return blocks.map(([, name = ""]) => name);
}

test("transactions infer, pools and root clients do not compile, and the guide's code does", () => {
  const names = extractGuide();
  const tsc = at("../../node_modules/typescript/bin/tsc");

  const { stdout, status } = spawnSync(process.execPath, [tsc, "--noEmit", "--project", "."], {
    cwd: at("."),
    encoding: "utf8",
  });

  expect(names).toHaveLength(10);
  expect(stdout).toBe("");
  expect(status).toBe(0);
});
