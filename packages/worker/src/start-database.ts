import { setTimeout as delay } from "node:timers/promises";
import { type Logger, SchemaVersionError } from "@waybill/core";
import { operatingError, requireSchemaVersion, sqlStateOf } from "@waybill/postgres";
import { openOwnDatabase, type OwnDatabase, type OwnDatabaseOptions } from "./own-database.ts";

/** Refused logins and missing databases: waiting does not help. */
const needsOperator = (error: unknown): boolean =>
  ["28000", "28P01", "3D000"].includes(sqlStateOf(error) ?? "");

const isTransient = (error: unknown): boolean => {
  const state = sqlStateOf(error);
  return state === undefined || ["08", "53", "57", "58"].includes(state.slice(0, 2));
};

/** The error in Waybill's words, where it has some. */
const explained = (error: unknown, schema: string): unknown =>
  operatingError("use the database", schema, error) ?? error;

async function tryOpen(options: OwnDatabaseOptions): Promise<OwnDatabase> {
  const database = await openOwnDatabase(options);
  try {
    await requireSchemaVersion(database.pool, options.schema);
    await database.probe();
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Says that the database is waited for, and waits: longer after each failure, up to 5 seconds, half of it by
 * chance.
 *
 * @throws the signal's reason
 */
export async function waitForDatabase(
  err: unknown,
  failures: number,
  { logger, random }: { readonly logger: Logger; readonly random: () => number },
  signal: AbortSignal,
): Promise<void> {
  logger.warn({ err }, "waiting for the database");
  const bound = Math.min(5_000, 100 * 2 ** Math.min(failures, 10));
  await delay(bound / 2 + (random() * bound) / 2, undefined, { signal });
}

/**
 * Opens the worker's database, waiting for it as long as waiting can help.
 *
 * @throws SchemaVersionError for a schema of another version; DatabaseUnavailableError for a refused
 *   login or a missing database; the signal's reason
 */
export async function startDatabase(
  options: OwnDatabaseOptions & { readonly logger: Logger },
  random: () => number,
  signal: AbortSignal,
): Promise<OwnDatabase> {
  for (let failures = 1; ; failures += 1) {
    signal.throwIfAborted();
    try {
      return await tryOpen(options);
    } catch (error) {
      const err = explained(error, options.schema);
      const isFinal = err instanceof SchemaVersionError || needsOperator(error);
      if (isFinal || !isTransient(error)) throw err;
      await waitForDatabase(err, failures, { logger: options.logger, random }, signal);
    }
  }
}
