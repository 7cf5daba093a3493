import { defineConfig } from "vitest/config";

/** As in the root: packages of this repository resolve to their TypeScript sources. */
const conditions = ["@waybill/source", "node"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["*.test.ts"],
    globalSetup: ["./generate-prisma-client.ts", "../support/global-setup.ts"],
    execArgv: ["--conditions=@waybill/source"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
