import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { guarded } from "../../scripts/services/guarded.ts";

/** How a process ended. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A Node process of ours: a relay, a worker, the command. Killed when the test ends, or when the test run dies. */
export interface TestProcess extends AsyncDisposable {
  readonly pid: number;
  /** All lines so far, of stdout and stderr as they came. */
  readonly lines: readonly string[];
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Settles when it has ended and its output is read. */
  readonly exited: Promise<ProcessExit>;
  readonly hasExited: boolean;
  /**
   * Resolves to the first line, past or future, that matches.
   * @throws Error with the last lines when the process ends or `deadlineMs` (default 30,000) passes first
   */
  waitForLine(
    pattern: string | RegExp | ((line: string) => boolean),
    options?: { readonly deadlineMs?: number | undefined },
  ): Promise<string>;
  /** Writes a line to its stdin. */
  writeLine(line: string): void;
  /** Closes its stdin. */
  endInput(): void;
  /** Sends a signal, SIGTERM by default. SIGSTOP and SIGCONT are fine. */
  kill(signal?: NodeJS.Signals): void;
}

/** Options of startProcess. */
export interface StartProcessOptions {
  /** Working directory. @default that of the tests */
  readonly cwd?: string | undefined;
  /** Further options of Node itself. @default none */
  readonly execArgv?: readonly string[] | undefined;
}

/**
 * Starts a TypeScript or JavaScript program with Node, on the sources of the packages.
 *
 * @param script path, or a file URL (`new URL("./worker.ts", import.meta.url)`)
 * @param env added to a bare environment (PATH, HOME, TMPDIR, NODE_COMPILE_CACHE); undefined values are left out
 */
export async function startProcess(
  script: string | URL,
  args: readonly string[] = [],
  env: Readonly<Record<string, string | undefined>> = {},
  options: StartProcessOptions = {},
): Promise<TestProcess> {
  const path = typeof script === "string" ? script : fileURLToPath(script);
  const execArgv = ["--conditions=@waybill/source", ...(options.execArgv ?? [])];
  const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [...execArgv, path, ...args], {
    cwd: options.cwd,
    env: { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const stdout: string[] = [];
  const stderr: string[] = [];
  const listeners = new Set<() => void>();
  const notify = (): void => {
    for (const listener of listeners) listener();
  };
  for (const [stream, own] of [
    [child.stdout, stdout],
    [child.stderr, stderr],
  ] as const) {
    createInterface({ input: stream }).on("line", (line) => {
      own.push(line);
      lines.push(line);
      notify();
    });
  }
  child.stdin.on("error", () => undefined);

  const ended = Promise.withResolvers<ProcessExit>();
  let hasExited = false;
  const { pid } = child;
  const release = pid === undefined ? undefined : guarded("process", pid);
  child.once("error", ended.reject);
  child.once("close", (code, signal) => {
    hasExited = true;
    release?.();
    ended.resolve({ code, signal });
    notify();
  });
  if (pid === undefined) {
    await ended.promise;
    throw new Error(`Cannot start ${path}.`);
  }

  return {
    pid,
    lines,
    stdout,
    stderr,
    exited: ended.promise,
    get hasExited() {
      return hasExited;
    },
    async waitForLine(pattern, { deadlineMs = 30_000 } = {}) {
      const matches = (line: string): boolean => {
        if (typeof pattern === "string") return line.includes(pattern);
        return typeof pattern === "function" ? pattern(line) : line.search(pattern) >= 0;
      };
      const found = Promise.withResolvers<string>();
      let seen = 0;
      const look = (): void => {
        for (; seen < lines.length; seen++) {
          const line = lines[seen];
          if (line !== undefined && matches(line)) return found.resolve(line);
        }
        if (hasExited) fail("it ended");
      };
      const fail = (fact: string): void => {
        const last = lines.slice(-20).join("\n");
        found.reject(new Error(`No line of ${path} matches ${String(pattern)}: ${fact}.\n${last}`));
      };
      const timer = setTimeout(() => fail(`not within ${deadlineMs} ms`), deadlineMs);
      listeners.add(look);
      look();
      try {
        return await found.promise;
      } finally {
        clearTimeout(timer);
        listeners.delete(look);
      }
    },
    writeLine: (line) => void child.stdin.write(`${line}\n`),
    endInput: () => void child.stdin.end(),
    kill: (signal) => void child.kill(signal),
    async [Symbol.asyncDispose]() {
      // A stopped process, too, ends by SIGKILL.
      child.kill("SIGKILL");
      await ended.promise;
    },
  };
}
