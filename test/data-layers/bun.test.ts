import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { createTestDatabase } from "../support/index.ts";
import { prepareDatabase } from "./bench.ts";
import type { Outcomes } from "./bun-suite.ts";
import { conformance } from "./conformance.ts";

const folder = fileURLToPath(new URL(".", import.meta.url));

/** The binary of Bun that runs here: npm installs those of this platform, for new processors and old. */
function findBun(): string {
  const packages = readdirSync(`${folder}/node_modules/@oven`);
  const binaries = packages.map((name) => `${folder}/node_modules/@oven/${name}/bin/bun`);
  const found = binaries.find((path) => spawnSync(path, ["--version"]).status === 0);
  if (found === undefined) throw new Error(`None of these runs: ${binaries.join(", ")}`);
  return found;
}

test("Bun.SQL, under Bun, keeps every guarantee of the suite", async () => {
  await using database = await createTestDatabase({ poolSize: 1 });
  await prepareDatabase(database.url);

  const { stdout, stderr } = spawnSync(
    findBun(),
    ["--conditions=@waybill/source", "bun-suite.ts", database.url],
    { cwd: folder, encoding: "utf8", timeout: 25_000 },
  );

  expect(stderr).toBe("");
  expect(JSON.parse(stdout) as Outcomes).toEqual(
    Object.fromEntries(conformance.map(([guarantee]) => [guarantee, null])),
  );
});
