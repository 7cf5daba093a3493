import { execFile, execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { freePort } from "./free-port.ts";
import { guarded } from "./guarded.ts";
import { localServer, withFreshPorts } from "./local-server.ts";
import { endPostgres, readPostmasterFile } from "./postgres-end.ts";
import type { PrivatePostgres, PrivatePostgresOptions } from "./private-server.ts";
import { postgresSettings } from "./server-settings.ts";
import { firstExecutable, onPath, serverDirectory, serverUser } from "./system-user.ts";

const execute = promisify(execFile);

/** What pg_config says about the directory of the programs. */
function configuredDirectory(): string[] {
  try {
    return [execFileSync("pg_config", ["--bindir"], { encoding: "utf8", stdio: "pipe" }).trim()];
  } catch {
    return [];
  }
}

/** The directory with `postgres` and `initdb`, the newest version first; undefined where PostgreSQL is not installed. */
export function findPostgres(): string | undefined {
  const debian = globSync("/usr/lib/postgresql/*/bin").sort(
    (a, b) => Number.parseFloat(b.split("/")[4] ?? "") - Number.parseFloat(a.split("/")[4] ?? ""),
  );
  const places = [
    ...debian,
    ...globSync("/usr/pgsql-*/bin").sort().toReversed(),
    ...configuredDirectory(),
    ...globSync("/{opt/homebrew,usr/local}/opt/postgresql@*/bin").sort().toReversed(),
    ...onPath("postgres").map((path) => dirname(path)),
  ];
  return places.find(
    (place) =>
      firstExecutable([join(place, "postgres")]) && firstExecutable([join(place, "initdb")]),
  );
}

/** Starts a private PostgreSQL of the installed programs in `binDirectory`, on the loopback address alone. */
export async function startLocalPostgres(
  binDirectory: string,
  options: PrivatePostgresOptions = {},
): Promise<PrivatePostgres> {
  return await withFreshPorts(options.port !== undefined, async () => {
    const port = options.port ?? (await freePort());
    const user = serverUser(["postgres"]);
    const directory = serverDirectory("postgres", user, options.fsync);
    const dataDirectory = join(directory, "data");
    const env = { PATH: process.env["PATH"], HOME: directory, LANG: "C.UTF-8", TZ: "UTC" };
    const release = guarded("postgres", dataDirectory);
    const own = {
      port: String(port),
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      log_min_messages: "warning",
    };
    return await localServer({
      name: "a private PostgreSQL",
      url: `postgres://postgres@127.0.0.1:${port}/postgres`,
      port,
      user,
      directory,
      dataDirectory,
      logFile: join(directory, "postgres.log"),
      command: join(binDirectory, "postgres"),
      args: ["-D", dataDirectory, ...postgresSettings(options, own)],
      env: { ...env, ...options.environment },
      prepare: async () => {
        await execute(
          join(binDirectory, "initdb"),
          [
            "--pgdata",
            dataDirectory,
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
          ],
          { ...user, env, cwd: directory },
        );
      },
      answers: async (pid) => {
        const file = readPostmasterFile(dataDirectory);
        return file?.pid === pid && file.isReady;
      },
      end: async () => {
        await endPostgres(dataDirectory);
        release();
      },
    });
  });
}
