import { join } from "node:path";
import { defineConfig } from "vitest/config";

/**
 * Packages of this repository resolve to their TypeScript sources, in tests and in what tests import. Vitest hands these
 * conditions to Node as well, so "import" must not be among them: it would reach require() too.
 */
const conditions = ["@waybill/source", "node"];
const sources = { resolve: { conditions }, ssr: { resolve: { conditions } } };

/** Tests start hundreds of processes from sources: what they compile is kept. */
const env = { NODE_COMPILE_CACHE: join(import.meta.dirname, "node_modules/.cache/node") };

export default defineConfig({
  test: {
    // Tests mostly wait for servers: more of them at once than there are cores.
    maxWorkers: 4,
    projects: [
      {
        ...sources,
        test: {
          name: "unit",
          include: [
            "packages/*/src/**/*.test.ts",
            "test/model/*.test.ts",
            "test/tidy.test.ts",
            "test/docs*.test.ts",
          ],
          execArgv: ["--conditions=@waybill/source"],
          testTimeout: 30_000,
        },
      },
      {
        ...sources,
        test: {
          name: "integration",
          include: ["test/**/*.test.ts"],
          // Of others: of the project "faults", with lockfiles and configurations of their own, without services.
          exclude: [
            "test/faults/**",
            "test/data-layers/**",
            "test/interop/**",
            "test/model/**",
            "test/tidy.test.ts",
            "test/docs*.test.ts",
            "**/node_modules/**",
          ],
          globalSetup: ["test/support/global-setup.ts"],
          env,
          execArgv: ["--conditions=@waybill/source"],
          // Machines are shared: a deadline here is for what hangs, not for what is slow.
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        ...sources,
        test: {
          name: "faults",
          include: ["test/faults/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts"],
          env,
          execArgv: ["--conditions=@waybill/source"],
          // Minutes of kills and outages each: what takes longer than 20 s is here and not in "integration".
          testTimeout: 600_000,
          hookTimeout: 60_000,
          // Each case of the crash matrix has processes of its own.
          maxConcurrency: 3,
        },
      },
    ],
  },
});
