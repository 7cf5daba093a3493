/**
 * Runs a test folder that has dependencies and a lockfile of its own: `run-suite.ts <folder> [vitest arguments]`.
 * Installs what the folder names (npm packages; `debianPackages` in its package.json), resolves the services, hands them
 * over as DATABASE_URL, RABBITMQ_URL and WAYBILL_MANAGEMENT_URL, and ends with vitest's exit code.
 */
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { canInstallPackages, installPackages } from "./services/debian-packages.ts";
import { resolveServices } from "./services/index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const [folder, ...vitestArguments] = process.argv.slice(2);
if (folder === undefined) {
  console.error("Cannot run a suite: no folder is named. Run: run-suite.ts <folder>");
  process.exit(2);
}
const suite = resolve(root, folder);

/** Ctrl-C reaches vitest as well; this process stays until the services are gone. */
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined);

async function run(
  command: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
): Promise<number> {
  const { promise, resolve: end, reject } = Promise.withResolvers<number>();
  const child = spawn(command, args, { stdio: "inherit", ...options });
  child.once("error", reject);
  child.once("close", (code) => end(code ?? 1));
  return await promise;
}

/** Whether the folder's packages are those of its lockfile: npm writes its own copy of it at the end of an install. */
function isInstalled(): boolean {
  const installed = statSync(join(suite, "node_modules/.package-lock.json"), {
    throwIfNoEntry: false,
  });
  const lockfile = statSync(join(suite, "package-lock.json"));
  return installed !== undefined && installed.mtimeMs > lockfile.mtimeMs;
}

async function installDebianPackages(): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(suite, "package.json"), "utf8")) as {
    readonly debianPackages?: readonly string[];
  };
  const missing = (manifest.debianPackages ?? []).filter((name) => {
    const { stdout } = spawnSync("dpkg-query", ["-W", "-f", "${Status}", name], {
      encoding: "utf8",
    });
    return stdout !== "install ok installed";
  });
  if (missing.length === 0) return;
  if (!canInstallPackages()) {
    throw new Error(
      `Cannot run ${folder}: it needs ${missing.join(", ")}. Run: sudo apt-get install ${missing.join(" ")}`,
    );
  }
  console.error(`${folder}: installing ${missing.join(" and ")} with apt-get`);
  await installPackages(missing);
}

if (!isInstalled()) {
  const code = await run("npm", ["ci", "--no-fund", "--no-audit"], { cwd: suite });
  if (code !== 0) process.exit(code);
}
await installDebianPackages();
await using services = await resolveServices({
  log: (line) => console.error(line),
  fsync: false,
});
process.exitCode = await run(
  process.execPath,
  [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", suite, ...vitestArguments],
  {
    cwd: suite,
    env: {
      ...process.env,
      DATABASE_URL: services.databaseUrl,
      RABBITMQ_URL: services.rabbitmqUrl,
      WAYBILL_MANAGEMENT_URL: services.managementUrl ?? "",
      // The URLs are what this run was given, wherever they came from.
      WAYBILL_SERVICES: "url",
    },
  },
);
