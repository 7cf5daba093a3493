import { execFile } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";

import { guarded } from "./guarded.ts";

const execute = promisify(execFile);
const POLICY = "/usr/sbin/policy-rc.d";

/** Whether this process may install packages: root on Debian or one of its descendants. */
export function canInstallPackages(): boolean {
  return process.getuid?.() === 0 && existsSync("/etc/debian_version");
}

async function apt(...args: string[]): Promise<void> {
  await execute("apt-get", args, {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    maxBuffer: 64 * 1024 * 1024,
  });
}

/**
 * Installs Debian packages without their recommendations and without starting the services that they bring.
 * @throws Error with the end of apt's output
 */
export async function installPackages(names: readonly string[]): Promise<void> {
  // The script that packages ask whether they may start their service; 101 is "no".
  let release: (() => void) | undefined;
  if (!existsSync(POLICY)) {
    release = guarded("file", POLICY);
    writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  }
  try {
    // With an index that cannot be refreshed the install may still work, and if not, it says more.
    await apt("update", "-qq").catch(() => undefined);
    await apt("install", "-y", "-qq", "--no-install-recommends", ...names);
  } catch (error) {
    const output = (error as { stderr?: string }).stderr?.trim().split("\n").slice(-5).join("\n");
    throw new Error(`Cannot install ${names.join(" and ")} with apt-get: ${output ?? ""}`, {
      cause: error,
    });
  } finally {
    if (release !== undefined) rmSync(POLICY, { force: true });
    release?.();
  }
}
