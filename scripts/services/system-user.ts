import {
  accessSync,
  chownSync,
  constants,
  mkdtempSync,
  readFileSync,
  statfsSync,
  statSync,
} from "node:fs";
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

/** Files in memory, where Linux has them, and what must be free there for servers that are tested upon. */
const MEMORY = "/dev/shm";
const MEMORY_BYTES = 4 * 1024 ** 3;

function hasMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= MEMORY_BYTES;
  } catch {
    return false;
  }
}

/**
 * A fresh directory that belongs to `user` and that this user can reach; in memory where the data need not outlive the
 * operating system and there is room.
 */
export function serverDirectory(
  name: string,
  user: SystemUser | undefined,
  isDurable = true,
): string {
  const parents = [...(!isDurable && hasMemory() ? [MEMORY] : []), tmpdir(), "/tmp", "/var/tmp"];
  const parent = (user === undefined ? parents[0] : parents.find(isOpenToAll)) ?? "/tmp";
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
