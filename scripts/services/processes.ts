import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** Whether a process with this id exists and is more than a zombie that waits for its parent. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it exists, as somebody else's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    // No /proc on this system, or the process ended between the two looks.
    return process.platform !== "linux";
  }
}

/** Process id and parent's id of everything that runs. */
async function processTable(): Promise<{ pid: number; parent: number }[]> {
  if (process.platform !== "linux") {
    const { stdout } = await execute("ps", ["-A", "-o", "pid=,ppid="]);
    return stdout.split("\n").flatMap((line) => {
      const [pid, parent] = line.trim().split(/\s+/).map(Number);
      return pid === undefined || parent === undefined ? [] : [{ pid, parent }];
    });
  }
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      // The command in parentheses may hold anything, so the fields are counted from its end.
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      return [{ pid: Number(name), parent }];
    } catch {
      return [];
    }
  });
}

/** The process and all that descend from it, parents first. PostgreSQL's children have process groups of their own. */
export async function processTree(pid: number): Promise<number[]> {
  const table = await processTable();
  const tree = [pid];
  for (const member of tree) {
    tree.push(...table.filter((row) => row.parent === member).map((row) => row.pid));
  }
  return tree.filter(isAlive);
}

/** Sends a signal; a process that has ended in the meantime is no error. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Waits until none of the processes is left. Resolves to those that are still there after `deadlineMs`. */
export async function waitForEnd(pids: readonly number[], deadlineMs: number): Promise<number[]> {
  const until = performance.now() + deadlineMs;
  let left = pids.filter(isAlive);
  while (left.length > 0 && performance.now() < until) {
    await delay(10);
    left = left.filter(isAlive);
  }
  return left;
}

/**
 * Ends the process and its descendants with SIGKILL, also when they are stopped, and waits until they are gone. They are
 * stopped first, until a look finds no new one: a server that forks for each connection would leave behind what it
 * started after the look.
 */
export async function killTree(pid: number): Promise<void> {
  const tree = new Set<number>();
  for (;;) {
    const found = (await processTree(pid)).filter((member) => !tree.has(member));
    if (found.length === 0) break;
    for (const member of found) {
      sendSignal(member, "SIGSTOP");
      tree.add(member);
    }
  }
  for (const member of tree) sendSignal(member, "SIGKILL");
  await waitForEnd([...tree], 10_000);
}
