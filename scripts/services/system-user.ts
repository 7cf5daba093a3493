import { accessSync, chownSync, constants, mkdtempSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The account that a private server runs under; nothing when it is the account of this process. */
export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Servers refuse to run as root, so root runs them as the first of `names` that exists, at last as `nobody`.
 * Anyone else runs them as himself.
 */
export function serverUser(names: readonly string[]): SystemUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync("/etc/passwd", "utf8").split("\n");
  for (const name of [...names, "nobody"]) {
    const fields = accounts.find((line) => line.startsWith(`${name}:`))?.split(":");
    if (fields !== undefined) return { uid: Number(fields[2]), gid: Number(fields[3]) };
  }
  throw new Error(
    `Cannot start a private server as root: none of the users ${[...names, "nobody"].join(", ")} exists. Run this as another user.`,
  );
}

/** Whether everybody may enter the directory and all above it. */
function isOpenToAll(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/** A fresh directory that belongs to `user` and that this user can reach. */
export function serverDirectory(name: string, user: SystemUser | undefined): string {
  const parents = [tmpdir(), "/tmp", "/var/tmp"];
  const parent = user === undefined ? tmpdir() : (parents.find(isOpenToAll) ?? "/tmp");
  const directory = mkdtempSync(join(parent, `waybill-${name}-`));
  if (user !== undefined) chownSync(directory, user.uid, user.gid);
  return directory;
}

/** The first of the paths that is an executable file. */
export function firstExecutable(paths: readonly string[]): string | undefined {
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    } catch {
      return false;
    }
  });
}

/** `name` in every directory of PATH, in order. */
export function onPath(name: string): string[] {
  return (process.env["PATH"] ?? "")
    .split(":")
    .filter((directory) => directory !== "")
    .map((directory) => join(directory, name));
}
