import { setTimeout as delay } from "node:timers/promises";
import type { GenericContainer, StartedTestContainer } from "testcontainers";

import type { DockerEngine } from "./docker-engine.ts";
import { guarded } from "./guarded.ts";
import { type PrivateServer, STARTUP_TIMEOUT_MS } from "./private-server.ts";

/** What differs between the servers that containerServer can run. */
export interface ContainerServerParts {
  /** Subject of error messages: "PostgreSQL (postgres:18)". */
  readonly name: string;
  readonly port: number;
  /** The URL of the server when Docker publishes its ports on `host`. */
  readonly url: (host: string) => string;
  /** Describes the container, its ports bound to fixed ones so that they outlive a restart. */
  readonly container: () => GenericContainer;
  /** Time between the call of `kill("SIGKILL")` and the kill. @default none */
  readonly killDelayMs?: number | undefined;
  readonly answers: (host: string, execute: Execute) => Promise<boolean>;
}

/** Runs a command in the container; rejects when it fails. */
export type Execute = (command: string[]) => Promise<string>;

/** A container server, with a way to run commands in it. */
export interface ContainerServer {
  readonly server: PrivateServer;
  readonly host: string;
  readonly execute: Execute;
}

/** The life of a private server in a container; the same promises as localServer. */
export async function containerServer(
  engine: DockerEngine,
  parts: ContainerServerParts,
): Promise<ContainerServer> {
  let started: StartedTestContainer | undefined;
  let release: (() => void) | undefined;
  let isRunning = false;
  let stopping: Promise<void> | undefined;

  const current = (): StartedTestContainer => {
    if (started === undefined) throw new Error(`Cannot use ${parts.name}: it has been ended.`);
    return started;
  };
  const container = () => engine.client.container.getById(current().getId());

  const execute: Execute = async (command) => {
    const result = await current().exec(command);
    if (result.exitCode === 0) return result.stdout;
    throw new Error(`Cannot run ${command.join(" ")} in ${parts.name}: ${result.output}`);
  };

  const waitUntilItAnswers = async (host: string): Promise<void> => {
    const until = performance.now() + STARTUP_TIMEOUT_MS;
    while (!(await parts.answers(host, execute).catch(() => false))) {
      if (performance.now() > until) {
        throw new Error(
          `Cannot start ${parts.name}: it did not answer within ${STARTUP_TIMEOUT_MS} ms.`,
        );
      }
      await delay(50);
    }
  };

  const start = async (): Promise<void> => {
    if (isRunning) return;
    if (started === undefined) {
      started = await parts.container().withStartupTimeout(STARTUP_TIMEOUT_MS).start();
      release = guarded("container", started.getId());
    } else {
      await container().start();
    }
    isRunning = true;
    await waitUntilItAnswers(started.getHost());
  };

  const kill = async (signal: NodeJS.Signals = "SIGKILL"): Promise<void> => {
    if (!isRunning) return;
    if (signal === "SIGSTOP") {
      await container().pause();
      return;
    }
    const { State: state } = await container().inspect();
    if (state.Paused) await container().unpause();
    if (signal === "SIGCONT") return;
    if (signal === "SIGKILL" && parts.killDelayMs !== undefined) await delay(parts.killDelayMs);
    await container().kill({ signal });
    if (signal === "SIGHUP" || signal === "SIGUSR1" || signal === "SIGUSR2") return;
    await container().wait();
    isRunning = false;
  };

  const remove = async (): Promise<void> => {
    if (started !== undefined) await container().remove({ force: true, v: true });
    started = undefined;
    isRunning = false;
    release?.();
  };

  const log = async (): Promise<string> => {
    const output = await container().logs({ stdout: true, stderr: true, follow: false });
    return output.toString("utf8");
  };

  try {
    await start();
  } catch (error) {
    await remove();
    throw error;
  }
  const host = current().getHost();
  const server: PrivateServer = {
    url: parts.url(host),
    port: parts.port,
    pid: undefined,
    directory: undefined,
    kill,
    start,
    restart: async () => {
      await kill();
      await start();
    },
    wipe: remove,
    log,
    stop: async () => await (stopping ??= remove()),
    [Symbol.asyncDispose]: async () => await (stopping ??= remove()),
  };
  return { server, host, execute };
}
