import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, Pool, type QueryResultRow } from "pg";

/** A database of its own for a test or a file. Dropped at the end, whoever is still connected. */
export interface TestDatabase extends AsyncDisposable {
  readonly name: string;
  readonly url: string;
  /** Connections to it; an idle one that breaks is forgotten quietly. */
  readonly pool: Pool;
  /** `pool.query`, resolving to the rows. */
  rows<Row extends QueryResultRow = Record<string, unknown>>(
    sql: string,
    values?: readonly unknown[],
  ): Promise<Row[]>;
}

/** Runs statements on a server's own database, one connection for the lot. */
async function administer(serverUrl: string, ...statements: string[]): Promise<void> {
  const client = new Client({ connectionString: serverUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** A pool whose idle connections may break (a killed server, a dropped database) without ending the process. */
export function createPool(url: string, size = 10): Pool {
  const pool = new Pool({ connectionString: url, max: size });
  pool.on("error", () => undefined);
  // While a client is taken out, its errors are not the pool's.
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

const CLI = new URL("../../packages/cli/src/main.ts", import.meta.url);

/** PostgreSQL's own empty database. */
export const EMPTY = "template1";

/** Makes a copy of the database `template`. */
export async function createDatabase(
  serverUrl: string,
  template: string,
  poolSize?: number,
): Promise<TestDatabase> {
  const name = `waybill_test_${randomBytes(6).toString("hex")}`;
  await administer(serverUrl, `create database "${name}" template "${template}"`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const pool = createPool(url.href, poolSize);
  return {
    name,
    url: url.href,
    pool,
    async rows<Row extends QueryResultRow>(sql: string, values: readonly unknown[] = []) {
      const result = await pool.query<Row>(sql, [...values]);
      return result.rows;
    },
    async [Symbol.asyncDispose]() {
      await pool.end();
      await administer(serverUrl, `drop database if exists "${name}" with (force)`);
    },
  };
}

/**
 * Makes what createMigratedDatabase copies; nobody may be connected to it. With the CLI, since vitest's main process does
 * not resolve packages to their sources.
 */
export async function createTemplate(serverUrl: string): Promise<TestDatabase> {
  const database = await createDatabase(serverUrl, EMPTY);
  const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env;
  try {
    await promisify(execFile)(
      process.execPath,
      ["--conditions=@waybill/source", fileURLToPath(CLI), "migrate"],
      { env: { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, DATABASE_URL: database.url } },
    );
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
  return database;
}
