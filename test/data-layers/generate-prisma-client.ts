import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Makes Prisma's client in dist/, which is not tracked; a second, and without the network. */
export function setup(): void {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  execFileSync(process.execPath, ["node_modules/prisma/build/index.js", "generate"], {
    cwd: folder,
    stdio: "pipe",
    env: {
      ...process.env,
      // The generator of Prisma 7 needs no engine; any file that exists keeps it from fetching one.
      PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true",
      PRISMA_HIDE_UPDATE_MESSAGE: "1",
      CHECKPOINT_DISABLE: "1",
    },
  });
}
