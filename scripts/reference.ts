/**
 * Renders docs/reference/{schema,topology,options}.md from the code. `--check` compares instead of
 * writing and exits with 1 if a page is stale.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { renderOptions } from "./reference/options.ts";
import { renderSchema } from "./reference/schema.ts";
import { renderTopology } from "./reference/topology.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const migrations = join(root, "packages/postgres/sql/migrations");

const pages: Readonly<Record<string, string>> = {
  "schema.md": renderSchema(
    readdirSync(migrations)
      .sort()
      .map((name) => readFileSync(join(migrations, name), "utf8"))
      .join("\n"),
  ),
  "topology.md": renderTopology(),
  "options.md": renderOptions((path) => readFileSync(join(root, path), "utf8")),
};

let stale = 0;
for (const [name, text] of Object.entries(pages)) {
  const path = join(root, "docs/reference", name);
  if (!process.argv.includes("--check")) {
    writeFileSync(path, text);
  } else if (readFileSync(path, "utf8") !== text) {
    console.error(`docs/reference/${name} is stale. Run: npm run generate`);
    stale += 1;
  }
}
process.exitCode = stale === 0 ? 0 : 1;
