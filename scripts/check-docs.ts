/**
 * Type-checks the TypeScript of the documentation. The ```ts blocks of a page form one module, in
 * their order, so a page reads as a program; a comment `<!-- ts-context … -->` may hold what the
 * reader does not need to see. Nothing is run.
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
// Inside the tree, so that the packages resolve; not tracked, since it lies in node_modules.
const folder = join(root, "node_modules/.cache/docs");

/** The module of a page; imports of all its blocks first, each once. */
function moduleOf(markdown: string): string {
  const parts = [
    ...[...markdown.matchAll(/<!-- ts-context\n([\s\S]*?)-->/g)].map((match) => match[1] ?? ""),
    ...[...markdown.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((match) => match[1] ?? ""),
  ];
  if (parts.length === 0) return "";
  const imports = new Set<string>();
  const body = parts.join("\n").replace(/^import [^;]+;\n/gm, (line) => {
    imports.add(line);
    return "";
  });
  return `${[...imports].join("")}\n${body}\nexport {};\n`;
}

const pages = execFileSync(
  "git",
  ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
  {
    cwd: root,
    encoding: "utf8",
  },
)
  .split("\n")
  .filter((path) => path !== "" && !path.includes("data-layers"));

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const page of pages) {
  const text = moduleOf(readFileSync(join(root, page), "utf8"));
  if (text !== "") writeFileSync(join(folder, `${page.replaceAll(/[/.]/g, "-")}.ts`), text);
}
writeFileSync(
  join(folder, "tsconfig.json"),
  JSON.stringify({
    extends: join(root, "test/tsconfig.json"),
    compilerOptions: { noUnusedLocals: false, tsBuildInfoFile: null, types: ["node"] },
    include: ["*.ts"],
    exclude: [],
  }),
);
try {
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], {
    cwd: root,
    encoding: "utf8",
    stdio: "pipe",
  });
} catch (error) {
  console.error((error as { stdout?: string }).stdout ?? String(error));
  process.exitCode = 1;
}
