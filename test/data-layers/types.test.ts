import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

test("transactions infer, and pools and root clients do not compile", () => {
  const tsc = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));

  const { stdout, status } = spawnSync(process.execPath, [tsc, "--noEmit", "--project", "."], {
    cwd: fileURLToPath(new URL(".", import.meta.url)),
    encoding: "utf8",
  });

  expect(stdout).toBe("");
  expect(status).toBe(0);
});
