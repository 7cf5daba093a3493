/** A PgBouncer of its own in transaction mode, on a free port, as a user without privileges. */

import { spawn } from "node:child_process";
import { chownSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";

import { freePort } from "../../scripts/services/index.ts";
import { serverDirectory, serverUser } from "../../scripts/services/system-user.ts";
import { eventually } from "../support/index.ts";

/** See {@link startPgBouncer}. */
export interface PgBouncer extends AsyncDisposable {
  /** The database's URL, through the pooler. */
  readonly url: string;
}

/** A value of an entry of [databases]. */
const quoted = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/** Starts one in front of a database; it has two connections to the server for all its clients. */
export async function startPgBouncer(databaseUrl: string): Promise<PgBouncer> {
  const server = new URL(databaseUrl);
  const port = await freePort();
  // PgBouncer refuses to run as root.
  const user = serverUser([]);
  const folder = serverDirectory("pgbouncer", user);
  const config = join(folder, "pgbouncer.ini");
  const password = decodeURIComponent(server.password);
  writeFileSync(
    config,
    [
      "[databases]",
      [
        `* = host=${quoted(server.hostname)} port=${server.port || "5432"}`,
        `user=${quoted(decodeURIComponent(server.username))}`,
        ...(password === "" ? [] : [`password=${quoted(password)}`]),
      ].join(" "),
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      "default_pool_size = 2",
    ].join("\n"),
    { mode: 0o600 },
  );
  if (user !== undefined) chownSync(config, user.uid, user.gid);
  const child = spawn("pgbouncer", [config], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin` },
    ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const ended = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      log += String(error);
      resolve();
    });
    child.once("close", () => resolve());
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };

  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(port);
  try {
    await eventually(async () => {
      const client = new Client({ connectionString: url.href });
      await client.connect();
      await client.end();
    });
  } catch (error) {
    await stop();
    throw new Error(`PgBouncer does not answer: ${log}`, { cause: error });
  }
  return { url: url.href, [Symbol.asyncDispose]: stop };
}
