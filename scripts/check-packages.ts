/** Checks every package as npm would publish it: exports and types resolve, nothing odd is packed. */

import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const run = (args: readonly string[], cwd: string): void => {
  execFileSync("npx", ["--no-install", ...args], { cwd, stdio: "inherit" });
};

run(["tsc", "-b"], root);
for (const name of readdirSync(join(root, "packages")).sort()) {
  const folder = join(root, "packages", name);
  console.log(`\n@waybill/${name}`);
  run(["publint", "--strict"], folder);
  run(["attw", "--profile", "esm-only", "--pack", "."], folder);
}
