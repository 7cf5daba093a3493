/**
 * Brings a schema to this package's version. Each migration is sent with its row of
 * waybill.migration as one simple query, which PostgreSQL runs as one transaction: a migrator that
 * is killed leaves either both or nothing, and no transaction stays open, whatever the connection is
 * (a client, a pool, a transaction pooler).
 *
 * Two migrators take turns by an advisory lock inside that transaction. The row is inserted before
 * the migration's own statements, so the one that comes second fails at once on the primary key,
 * reads what is there, and goes on from it.
 */

import {
  DatabaseUnavailableError,
  type Logger,
  SchemaVersionError,
  silentLogger,
} from "@waybill/core";
import { sqlStateOf, unavailableError } from "./database-errors.ts";
import type { SqlConnection } from "./executor.ts";
import { type Migration, migrations } from "./sql.generated.ts";
import { defaultSchema, inSchema, type Statements, statementsFor } from "./statements.ts";

/** Options of {@link migrate}. */
export interface MigrateOptions {
  /**
   * Schema that holds Waybill's tables; made where it is missing.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /** Gets one line for each migration that was run; nothing by default. */
  readonly log?: Logger | undefined;
}

/** What {@link migrate} did. */
export interface MigrateResult {
  /** Version before; 0 for a new schema. */
  readonly from: number;
  readonly to: number;
  /** Names of the migrations that this call ran. */
  readonly applied: readonly string[];
}

const versionMin = 150_000;

async function checkServer(connection: SqlConnection, statements: Statements): Promise<void> {
  const { rows } = await connection.query({ text: statements.get_server_facts.text });
  const facts = rows[0] ?? {};
  if (Number(facts["version"]) < versionMin) {
    throw new DatabaseUnavailableError(
      `Cannot migrate: the server is PostgreSQL ${Math.floor(Number(facts["version"]) / 10_000)}. Waybill needs PostgreSQL 15 or newer.`,
    );
  }
  if (facts["recovery"] === "true" || facts["readonly"] === "on") {
    throw new DatabaseUnavailableError(
      "Cannot migrate: the server is read-only (a standby, or default_transaction_read_only). Connect to the primary.",
    );
  }
}

/** Version of the schema by its rows, or the error that they show. */
function checkHistory(schema: string, rows: readonly Record<string, unknown>[]): number {
  for (const row of rows) {
    const version = Number(row["version"]);
    const own = migrations[version - 1];
    if (own === undefined) throw new SchemaVersionError(schema, migrations.length, version);
    if (own.hash !== row["hash"]) {
      throw new SchemaVersionError(schema, migrations.length, version, {
        fact:
          `migration ${version} (${own.name}) was run there with another text than this package has. ` +
          `Use the @waybill packages that made the schema, or a fresh schema.`,
      });
    }
  }
  return rows.length === 0 ? 0 : Number(rows.at(-1)?.["version"]);
}

/** The whole transaction of a migration as one text: a simple query takes no parameters. */
function transactionOf(migration: Migration, schema: string, statements: Statements): string {
  // Name and hash come from the generated file; the check is for whoever edits it by hand.
  if (!/^[a-z0-9_]+$/.test(migration.name) || !/^[0-9a-f]{64}$/.test(migration.hash)) {
    throw new TypeError(`Migration ${migration.version} is malformed.`);
  }
  const record = statements.record_migration.text
    .replace(":version", String(migration.version))
    .replace(":name", migration.name)
    .replace(":hash", migration.hash);
  return `${statements.lock_migrations.text};\n${record};\n${inSchema(migration.text, schema)}`;
}

function migrationError(schema: string, error: unknown): unknown {
  switch (sqlStateOf(error)) {
    case "42501":
      return new DatabaseUnavailableError(
        `Cannot migrate schema "${schema}": the database user lacks a privilege (${(error as Error).message}). ` +
          `Migrate as the schema's owner, or let an administrator create the schema with this user as its owner.`,
        { cause: error },
      );
    case "55P03":
      return new DatabaseUnavailableError(
        `Cannot migrate schema "${schema}": another transaction holds a lock that the migration needs. ` +
          `Nothing was changed; try again, or end the transaction that holds it (see pg_stat_activity).`,
        { cause: error },
      );
    default:
      return unavailableError(`migrate schema "${schema}"`, error) ?? error;
  }
}

/**
 * Runs the migrations that the schema does not have yet. Safe to call from several processes at
 * once and to repeat; a schema that is up to date is only read.
 *
 * @param connection a `pg` Client or Pool; no transaction may be open on it
 * @throws SchemaVersionError where the schema is newer than this package, or was made by another text
 * @throws DatabaseUnavailableError for a read-only server, a missing privilege or a lock that is held
 * @throws NameError for a name outside the rules of schema names
 */
export async function migrate(
  connection: SqlConnection,
  options: MigrateOptions = {},
): Promise<MigrateResult> {
  const schema = options.schema ?? defaultSchema;
  const log = options.log ?? silentLogger;
  const statements = statementsFor(schema);
  const applied: string[] = [];
  try {
    await checkServer(connection, statements);
    await connection.query({ text: statements.ensure_schema.text });
    const history = async (): Promise<number> =>
      checkHistory(
        schema,
        (await connection.query({ text: statements.list_migrations.text })).rows,
      );
    const from = await history();
    let version = from;
    while (version < migrations.length) {
      const migration = migrations[version];
      if (migration === undefined) break;
      try {
        await connection.query({ text: transactionOf(migration, schema, statements) });
        applied.push(migration.name);
        log.info(
          { schema, version: migration.version, migration: migration.name },
          "schema migrated",
        );
      } catch (error) {
        // Another migrator was first; whatever else violates a key is an error of the migration.
        if (sqlStateOf(error) !== "23505" || (await history()) <= version) throw error;
      }
      version = await history();
    }
    return { from, to: version, applied };
  } catch (error) {
    throw migrationError(schema, error);
  }
}

/** Version of the schema; 0 where there is none. */
export async function schemaVersion(
  connection: SqlConnection,
  schema: string = defaultSchema,
): Promise<number> {
  try {
    const { rows } = await connection.query({
      text: statementsFor(schema).get_schema_version.text,
    });
    return Number(rows[0]?.["version"] ?? 0);
  } catch (error) {
    const state = sqlStateOf(error);
    if (state === "42P01" || state === "3F000") return 0;
    throw unavailableError(`read the version of schema "${schema}"`, error) ?? error;
  }
}

/**
 * Checks that the schema has this package's version.
 *
 * @throws SchemaVersionError with what to do
 */
export async function requireSchemaVersion(
  connection: SqlConnection,
  schema: string = defaultSchema,
): Promise<void> {
  const version = await schemaVersion(connection, schema);
  if (version !== migrations.length) {
    throw new SchemaVersionError(schema, migrations.length, version);
  }
}
