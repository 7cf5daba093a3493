/** CPU time of groups of processes, from /proc. */

import { readFileSync } from "node:fs";
import { processTree } from "../../scripts/services/processes.ts";

/** The processes that a measurement tells apart. */
export type Group = "relay" | "worker" | "postgres" | "broker";

/** CPU seconds by group; undefined: its processes are not on this machine. */
export type Cpu = Readonly<Record<Group, number | undefined>>;

/** Clock ticks of a second in /proc, on every Linux that Node runs on. */
const ticks = 100;

/** Seconds of the process itself, and of its children that have ended and were waited for. */
function secondsOf(pid: number): number {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return 0;
  }
  // The command in parentheses may hold anything, so the fields are counted from its end.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticks;
}

async function secondsOfTrees(roots: readonly (number | undefined)[]): Promise<number | undefined> {
  const known = roots.flatMap((pid) => pid ?? []);
  if (process.platform !== "linux" || known.length < roots.length) return undefined;
  const trees = await Promise.all(known.map(processTree));
  return trees.flat().reduce((sum, pid) => sum + secondsOf(pid), 0);
}

/** What each group has used so far, with all that descends from its processes. */
export async function readCpu(
  roots: Readonly<Record<Group, readonly (number | undefined)[]>>,
): Promise<Cpu> {
  const [relay, worker, postgres, broker] = await Promise.all([
    secondsOfTrees(roots.relay),
    secondsOfTrees(roots.worker),
    secondsOfTrees(roots.postgres),
    secondsOfTrees(roots.broker),
  ]);
  return { relay, worker, postgres, broker };
}

/** What was used between two readings for a thousand of so many jobs. */
export function cpuPerThousand(before: Cpu, after: Cpu, jobs: number): Cpu {
  const of = (group: Group): number | undefined => {
    const [from, to] = [before[group], after[group]];
    return from === undefined || to === undefined ? undefined : ((to - from) / jobs) * 1_000;
  };
  return {
    relay: of("relay"),
    worker: of("worker"),
    postgres: of("postgres"),
    broker: of("broker"),
  };
}
