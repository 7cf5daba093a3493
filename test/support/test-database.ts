import { randomBytes } from "node:crypto";
import { Client, Pool, type QueryResultRow } from "pg";
import { inject } from "vitest";

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

/** Options of createTestDatabase. */
export interface TestDatabaseOptions {
  /** Database to copy; nobody may be connected to it. @default PostgreSQL's template1 */
  readonly template?: string | undefined;
  /** Connections of the pool. @default 10 */
  readonly poolSize?: number | undefined;
  /** Server to make it on, such as a private one. @default the services of this run */
  readonly serverUrl?: string | undefined;
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

/** Makes an empty database (about 50 ms). */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const serverUrl = options.serverUrl ?? inject("databaseUrl");
  const name = `waybill_test_${randomBytes(6).toString("hex")}`;
  const template = options.template === undefined ? "" : ` template "${options.template}"`;
  await administer(serverUrl, `create database "${name}"${template}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const pool = createPool(url.href, options.poolSize);
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
