import { execFile, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { createTestDatabase } from "../support/index.ts";
import { prepareDatabase } from "./bench.ts";
import type { Outcomes } from "./bun-suite.ts";
import { conformance } from "./conformance.ts";
import { startPgBouncer } from "./pgbouncer.ts";

const folder = fileURLToPath(new URL(".", import.meta.url));

/** The binary of Bun that runs here: npm installs those of this platform, for new processors and old. */
function findBun(): string {
  const packages = readdirSync(`${folder}/node_modules/@oven`);
  const binaries = packages.map((name) => `${folder}/node_modules/@oven/${name}/bin/bun`);
  const found = binaries.find((path) => spawnSync(path, ["--version"]).status === 0);
  if (found === undefined) throw new Error(`None of these runs: ${binaries.join(", ")}`);
  return found;
}

/** What the suite came to under Bun. */
async function runSuite(...urls: readonly string[]): Promise<Outcomes> {
  const { stdout } = await promisify(execFile)(
    findBun(),
    ["--conditions=@waybill/source", "bun-suite.ts", ...urls],
    { cwd: folder, timeout: 25_000 },
  );
  return JSON.parse(stdout) as Outcomes;
}

const everyGuaranteeKept: Outcomes = Object.fromEntries(
  conformance.map(([guarantee]) => [guarantee, null]),
);

test("Bun.SQL keeps every guarantee of the suite", async () => {
  await using database = await createTestDatabase({ poolSize: 1 });
  await prepareDatabase(database.url);

  expect(await runSuite(database.url)).toEqual(everyGuaranteeKept);
});

test("Bun.SQL without prepared statements keeps every guarantee through PgBouncer", async () => {
  await using database = await createTestDatabase({ poolSize: 1 });
  await prepareDatabase(database.url);
  await using pooler = await startPgBouncer(database.url);

  expect(await runSuite(pooler.url, database.url)).toEqual(everyGuaranteeKept);
});
