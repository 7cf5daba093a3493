import { spawn } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

/**
 * What the guard knows how to clear away: a process with its descendants (by id), a PostgreSQL (by data directory), a
 * container (by id), a directory, a file.
 */
export type GuardedKind = "process" | "postgres" | "container" | "directory" | "file";

interface Guard {
  readonly send: (line: string) => void;
}

let guard: Guard | undefined;

/** One guard per process, started with the first thing to guard. Neither it nor its pipe keeps this process alive. */
function startGuard(): Guard {
  const child = spawn(process.execPath, [fileURLToPath(new URL("guard.ts", import.meta.url))], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    env: { PATH: process.env["PATH"], DOCKER_HOST: process.env["DOCKER_HOST"] },
    cwd: "/",
  });
  child.unref();
  child.on("error", () => undefined);
  child.stdin.on("error", () => undefined);
  if (child.stdin instanceof Socket) child.stdin.unref();
  return { send: (line) => void child.stdin.write(`${line}\n`) };
}

/**
 * Has this thing cleared away if this process ends, in whatever way, before the returned function was called.
 *
 * @returns call it once the thing is gone
 */
export function guarded(kind: GuardedKind, name: string | number): () => void {
  guard ??= startGuard();
  const { send } = guard;
  send(`+${kind} ${name}`);
  return () => send(`-${kind} ${name}`);
}
