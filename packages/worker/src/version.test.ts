import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { packageVersion } from "./version.ts";

test("the version that workers show is the package's", () => {
  const manifest = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8"),
  ) as { readonly version: string };

  expect(packageVersion).toBe(manifest.version);
});
