import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { isAlive, killTree, processTree, sendSignal, waitForEnd } from "./processes.ts";

const execute = promisify(execFile);

/** What a running PostgreSQL says about itself in its data directory. */
export interface PostmasterFile {
  readonly pid: number;
  /** Id of the System V shared memory segment that guards the data directory. */
  readonly sharedMemoryId: string | undefined;
  readonly isReady: boolean;
}

/** Reads `postmaster.pid`, or nothing where no server has started or it has shut down in order. */
export function readPostmasterFile(dataDirectory: string): PostmasterFile | undefined {
  let lines: string[];
  try {
    lines = readFileSync(join(dataDirectory, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  return {
    pid,
    sharedMemoryId: lines[6]?.trim().split(/\s+/)[1],
    isReady: lines[7]?.trim() === "ready",
  };
}

/**
 * Ends the PostgreSQL of a data directory at once, whatever state it is in, together with the shared memory that a
 * killed server leaves behind.
 */
export async function endPostgres(dataDirectory: string): Promise<void> {
  const file = readPostmasterFile(dataDirectory);
  if (file === undefined) return;
  if (isAlive(file.pid)) {
    const tree = await processTree(file.pid);
    for (const pid of tree) sendSignal(pid, "SIGCONT");
    // Immediate shutdown: no checkpoint, but the server still removes its shared memory.
    sendSignal(file.pid, "SIGQUIT");
    const left = await waitForEnd(tree, 7_000);
    if (left.includes(file.pid)) await killTree(file.pid);
    for (const pid of left) sendSignal(pid, "SIGKILL");
  }
  const stale = readPostmasterFile(dataDirectory);
  if (stale?.sharedMemoryId === undefined) return;
  await execute("ipcrm", ["-m", stale.sharedMemoryId]).catch(() => undefined);
}
