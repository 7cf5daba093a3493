import { migrate } from "@waybill/postgres";
import { inject } from "vitest";

import { createDatabase, EMPTY, type TestDatabase } from "./database-server.ts";

/** Options of createTestDatabase. */
export interface TestDatabaseOptions {
  /** Connections of the pool. @default 10 */
  readonly poolSize?: number | undefined;
  /** Server to make it on, such as a private one. @default the services of this run */
  readonly serverUrl?: string | undefined;
}

/** Makes an empty database (15 to 100 ms). */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  return await createDatabase(options.serverUrl ?? inject("databaseUrl"), EMPTY, options.poolSize);
}

/** Makes a database that is migrated: a copy of one, 60 to 200 ms, on the server of this run. */
export async function createMigratedDatabase(
  options: TestDatabaseOptions = {},
): Promise<TestDatabase> {
  if (options.serverUrl === undefined) {
    return await createDatabase(
      inject("databaseUrl"),
      inject("migratedDatabase"),
      options.poolSize,
    );
  }
  const database = await createTestDatabase(options);
  await migrate(database.pool);
  return database;
}
