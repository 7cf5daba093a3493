import { defineConfig } from "vitest/config";

/** Waybill's packages resolve to their sources, as in the root configuration; the clients come from this folder. */
const conditions = ["@waybill/source", "node"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["*.test.ts"],
    globalSetup: ["../support/global-setup.ts"],
    execArgv: ["--conditions=@waybill/source"],
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
