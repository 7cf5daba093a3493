import { type ChildProcess, spawn } from "node:child_process";
import { openSync, closeSync, readFileSync, rmSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

import { guarded } from "./guarded.ts";
import { killTree, processTree, sendSignal, waitForEnd } from "./processes.ts";
import { type PrivateServer, STARTUP_TIMEOUT_MS } from "./private-server.ts";
import type { SystemUser } from "./system-user.ts";

/** What differs between the servers that localServer can run. */
export interface LocalServerParts {
  /** Subject of error messages: "PostgreSQL". */
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly user: SystemUser | undefined;
  /** Everything of the server is below it. */
  readonly directory: string;
  readonly logFile: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Makes the data that the server starts on; called before the first start and after each wipe. */
  readonly prepare: () => Promise<void>;
  /** Where the data is, for wipe. */
  readonly dataDirectory: string;
  /** Whether the server with this process id answers. */
  readonly answers: (pid: number) => Promise<boolean>;
  /** Time between the call of `kill("SIGKILL")` and the kill. @default none */
  readonly killDelayMs?: number | undefined;
  /** Ends the running server for good, with what it leaves outside of `directory`. */
  readonly end: (pid: number | undefined) => Promise<void>;
}

const FREEZING: readonly string[] = ["SIGSTOP", "SIGCONT", "SIGHUP", "SIGUSR1", "SIGUSR2"];

/** The life of a private server that is a child process: start, signals, restart on the same data, no trace at the end. */
export async function localServer(parts: LocalServerParts): Promise<PrivateServer> {
  let child: ChildProcess | undefined;
  let release: (() => void) | undefined;
  let isPrepared = false;
  let stopping: Promise<void> | undefined;
  const releaseDirectory = guarded("directory", parts.directory);

  const tail = (): string => {
    try {
      return readFileSync(parts.logFile, "utf8").trim().split("\n").slice(-15).join("\n");
    } catch {
      return "(no log)";
    }
  };

  const start = async (): Promise<void> => {
    if (child !== undefined) return;
    if (!isPrepared) await parts.prepare();
    isPrepared = true;
    const output = openSync(parts.logFile, "a", 0o644);
    const started = spawn(parts.command, parts.args, {
      ...parts.user,
      env: parts.env,
      cwd: parts.directory,
      stdio: ["ignore", output, output],
      // A session of its own: Ctrl-C is for us, and we end the server when we are ready.
      detached: true,
    });
    closeSync(output);
    let spawnError: Error | undefined;
    started.on("error", (error) => (spawnError = error));
    started.unref();
    const { pid } = started;
    if (pid === undefined) {
      await delay(0);
      throw new Error(`Cannot start ${parts.name}: ${parts.command} does not run.`, {
        cause: spawnError,
      });
    }
    child = started;
    release = guarded("process", pid);
    const until = performance.now() + STARTUP_TIMEOUT_MS;
    while (!(await parts.answers(pid))) {
      const hasEnded = started.exitCode !== null || started.signalCode !== null;
      if (hasEnded || performance.now() > until) {
        await kill("SIGKILL");
        const fact = hasEnded ? "it ended" : `it did not answer within ${STARTUP_TIMEOUT_MS} ms`;
        throw new Error(`Cannot start ${parts.name}: ${fact}. The end of its log:\n${tail()}`);
      }
      await delay(25);
    }
  };

  const forget = (): void => {
    child = undefined;
    release?.();
    release = undefined;
  };

  /** A killed process keeps its id until its end was taken note of, and PostgreSQL looks whether it is free. */
  const reaped = async (): Promise<void> => {
    const ending = child;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    ending.once("exit", () => resolve());
    await Promise.race([ended, delay(5_000, undefined, { ref: false })]);
  };

  const kill = async (signal: NodeJS.Signals = "SIGKILL"): Promise<void> => {
    const pid = child?.pid;
    if (pid === undefined) return;
    if (signal === "SIGKILL") {
      if (parts.killDelayMs !== undefined) await delay(parts.killDelayMs);
      await killTree(pid);
      await reaped();
      forget();
      return;
    }
    const tree = await processTree(pid);
    if (FREEZING.includes(signal)) {
      for (const member of tree) sendSignal(member, signal);
      return;
    }
    sendSignal(pid, signal);
    const left = await waitForEnd(tree, 60_000);
    if (left.length > 0) {
      throw new Error(`Cannot end ${parts.name} by ${signal}: it still runs after 60 s.`);
    }
    forget();
  };

  const stop = async (): Promise<void> => {
    await parts.end(child?.pid);
    forget();
    rmSync(parts.directory, { recursive: true, force: true, maxRetries: 5 });
    releaseDirectory();
  };

  const server: PrivateServer = {
    url: parts.url,
    port: parts.port,
    directory: parts.directory,
    get pid() {
      return child?.pid;
    },
    kill,
    start,
    restart: async () => {
      await kill();
      await start();
    },
    wipe: async () => {
      await kill();
      rmSync(parts.dataDirectory, { recursive: true, force: true, maxRetries: 5 });
      isPrepared = false;
    },
    log: async () => readFileSync(parts.logFile, "utf8"),
    stop: async () => await (stopping ??= stop()),
    [Symbol.asyncDispose]: async () => await (stopping ??= stop()),
  };
  try {
    await start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

/** Starts on random ports again, up to three times in all, where somebody else took the port first. */
export async function withFreshPorts<Server>(
  isFixed: boolean,
  start: () => Promise<Server>,
): Promise<Server> {
  for (let round = 1; ; round++) {
    try {
      return await start();
    } catch (error) {
      const isTaken = /address already in use|could not bind|eaddrinuse/i.test(String(error));
      if (isFixed || !isTaken || round === 3) throw error;
    }
  }
}
