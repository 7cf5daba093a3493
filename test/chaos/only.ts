/** The tests of one fault of the catalogue. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";

const root = fileURLToPath(new URL("../../", import.meta.url));
const vitest = join(
  dirname(createRequire(import.meta.url).resolve("vitest/package.json")),
  "vitest.mjs",
);

const report = z.object({ numPassedTests: z.number(), numFailedTests: z.number() });

/**
 * Runs the tests whose names have the fault's id, in the projects of this repository that need services.
 *
 * @returns true where there was one at least, and none failed
 */
export async function runOnly(fault: string): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), "waybill-chaos-"));
  try {
    const file = join(directory, "report.json");
    const child = spawn(
      process.execPath,
      [
        vitest,
        "run",
        ...["integration", "faults"].flatMap((project) => ["--project", project]),
        "--testNamePattern",
        `\\b${fault}\\b`,
        "--reporter=default",
        "--reporter=json",
        `--outputFile.json=${file}`,
      ],
      { cwd: root, stdio: ["ignore", "inherit", "inherit"] },
    );
    const [code] = (await once(child, "close")) as [number | null];
    const counts = report.parse(JSON.parse(await readFile(file, "utf8")));
    if (counts.numPassedTests + counts.numFailedTests === 0) {
      process.stderr.write(`chaos: no test has the name of fault ${fault}\n`);
      return false;
    }
    return code === 0;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
