import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, globSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { freePort } from "./free-port.ts";
import { guarded } from "./guarded.ts";
import { localServer, withFreshPorts } from "./local-server.ts";
import { killTree } from "./processes.ts";
import type { PrivateRabbitmq, PrivateRabbitmqOptions } from "./private-server.ts";
import { managementAnswers, speaksAmqp } from "./rabbitmq-answers.ts";
import {
  RABBITMQ_SYNC_MS,
  RABBITMQ_SYNC_TABLES,
  rabbitmqConfig,
  rabbitmqPlugins,
} from "./server-settings.ts";
import {
  firstExecutable,
  onPath,
  serverDirectory,
  serverUser,
  type SystemUser,
} from "./system-user.ts";

const execute = promisify(execFile);

/** The directory with the real `rabbitmq-server`; undefined where RabbitMQ is not installed. */
export function findRabbitmq(): string | undefined {
  const server = firstExecutable([
    // Debian's /usr/sbin/rabbitmq-server is a wrapper that changes the user and its files, so it comes last.
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    ...globSync("/{opt/homebrew,usr/local}/opt/rabbitmq/sbin/rabbitmq-server"),
    ...onPath("rabbitmq-server"),
  ]);
  return server === undefined ? undefined : dirname(realpathSync(server));
}

/** Erlang's port mapper: beside `erl` on PATH, or below Erlang's own root. */
function findEpmd(): string {
  const found = firstExecutable([
    ...onPath("epmd"),
    ...onPath("erl").map((path) => join(dirname(path), "epmd")),
    ...globSync("/usr/lib/erlang/erts-*/bin/epmd"),
  ]);
  if (found !== undefined) return found;
  const ask = 'io:format("~s", [code:root_dir()]), halt().';
  const root = execFileSync("erl", ["-noshell", "-eval", ask], { encoding: "utf8" });
  const below = firstExecutable(globSync(`${root}/erts-*/bin/epmd`));
  if (below === undefined) throw new Error(`Cannot find epmd: neither on PATH nor below ${root}.`);
  return below;
}

interface Ports {
  readonly amqp: number;
  readonly management: number;
  readonly distribution: number;
  readonly epmd: number;
}

/** The broker's files, all in `directory`; nothing of an installed broker's configuration is read. */
function writeConfiguration(
  directory: string,
  user: SystemUser | undefined,
  ports: Ports,
  options: PrivateRabbitmqOptions,
): void {
  const own = (path: string): void => {
    if (user !== undefined) chownSync(path, user.uid, user.gid);
  };
  const write = (name: string, text: string, mode = 0o644): void => {
    writeFileSync(join(directory, name), text, { mode });
    own(join(directory, name));
  };
  for (const name of ["home", "log", "conf.d"]) {
    mkdirSync(join(directory, name));
    own(join(directory, name));
  }
  write("home/.erlang.cookie", randomBytes(16).toString("hex"), 0o400);
  write("enabled_plugins", rabbitmqPlugins(options));
  if (options.advancedConfig !== undefined) write("advanced.config", options.advancedConfig);
  write(
    "rabbitmq.conf",
    [
      `listeners.tcp.default = 127.0.0.1:${ports.amqp}`,
      "management.tcp.ip = 127.0.0.1",
      `management.tcp.port = ${ports.management}`,
      "log.console = true",
      "log.console.level = info",
      "log.file = false",
      rabbitmqConfig(options),
    ].join("\n"),
  );
}

/** Everything that tells this node apart from an installed one. */
function environment(directory: string, nodeName: string, ports: Ports): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    LANG: "C.UTF-8",
    HOME: join(directory, "home"),
    RABBITMQ_NODENAME: nodeName,
    RABBITMQ_MNESIA_BASE: join(directory, "data"),
    RABBITMQ_LOG_BASE: join(directory, "log"),
    RABBITMQ_CONFIG_FILE: join(directory, "rabbitmq.conf"),
    RABBITMQ_CONFIG_FILES: join(directory, "conf.d"),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(directory, "advanced.config"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(directory, "enabled_plugins"),
    RABBITMQ_CONF_ENV_FILE: "/dev/null",
    RABBITMQ_PID_FILE: join(directory, "pid"),
    RABBITMQ_DIST_PORT: String(ports.distribution),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-kernel inet_dist_use_interface {127,0,0,1} ${RABBITMQ_SYNC_TABLES}`,
    ERL_EPMD_PORT: String(ports.epmd),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    // The script then becomes the Erlang machine instead of waiting for it, so that its process is the server's.
    RUNNING_UNDER_SYSTEMD: "true",
  };
}

/** Starts a private RabbitMQ of the installed programs in `binDirectory`, on the loopback address alone. */
export async function startLocalRabbitmq(
  binDirectory: string,
  options: PrivateRabbitmqOptions = {},
): Promise<PrivateRabbitmq> {
  return await withFreshPorts(options.port !== undefined, async () => {
    const ports: Ports = {
      amqp: options.port ?? (await freePort()),
      management: await freePort(),
      distribution: await freePort(),
      epmd: await freePort(),
    };
    const user = serverUser(["rabbitmq"]);
    const directory = serverDirectory("rabbitmq", user, options.fsync);
    writeConfiguration(directory, user, ports, options);
    const nodeName = `waybill-${randomBytes(4).toString("hex")}@localhost`;
    const env = environment(directory, nodeName, ports);
    const managementUrl = `http://127.0.0.1:${ports.management}`;
    // Erlang would start a port mapper that outlives it; ours runs in the foreground under a process id that we know.
    let epmd: ChildProcess | undefined;
    let releaseEpmd: (() => void) | undefined;
    const server = await localServer({
      name: "a private RabbitMQ",
      url: `amqp://guest:guest@127.0.0.1:${ports.amqp}`,
      port: ports.amqp,
      user,
      directory,
      dataDirectory: join(directory, "data"),
      logFile: join(directory, "rabbitmq.log"),
      command: join(binDirectory, "rabbitmq-server"),
      args: [],
      killDelayMs: RABBITMQ_SYNC_MS,
      env,
      prepare: async () => {
        if (epmd !== undefined) return;
        epmd = spawn(findEpmd(), ["-address", "127.0.0.1", "-port", String(ports.epmd)], {
          ...user,
          env,
          cwd: "/",
          stdio: "ignore",
          detached: true,
        });
        epmd.on("error", () => undefined);
        epmd.unref();
        if (epmd.pid !== undefined) releaseEpmd = guarded("process", epmd.pid);
      },
      answers: async () =>
        (await speaksAmqp("127.0.0.1", ports.amqp)) && (await managementAnswers(managementUrl)),
      end: async (pid) => {
        if (pid !== undefined) await killTree(pid);
        if (epmd?.pid !== undefined) await killTree(epmd.pid);
        releaseEpmd?.();
      },
    });
    const ctl = async (...args: string[]): Promise<string> => {
      const { stdout } = await execute(join(binDirectory, "rabbitmqctl"), args, {
        ...user,
        env,
        cwd: directory,
      });
      return stdout;
    };
    return Object.defineProperties(
      { managementUrl, ctl },
      Object.getOwnPropertyDescriptors(server),
    ) as PrivateRabbitmq;
  });
}
