import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** How a script ended. */
export interface ScriptRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a script on the services of this test run.
 *
 * @param file from the root of the repository
 */
export async function runScript(file: string, ...args: string[]): Promise<ScriptRun> {
  const { promise, resolve } = Promise.withResolvers<ScriptRun>();
  const { PATH, HOME, TMPDIR } = process.env;
  const services = {
    DATABASE_URL: inject("databaseUrl"),
    RABBITMQ_URL: inject("rabbitmqUrl"),
    WAYBILL_MANAGEMENT_URL: inject("managementUrl"),
  };
  execFile(
    process.execPath,
    ["--conditions=@waybill/source", file, ...args],
    { cwd: root, env: { PATH, HOME, TMPDIR, ...services } },
    (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr });
    },
  );
  return await promise;
}
