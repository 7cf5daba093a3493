import { DatabaseUnavailableError, WaybillError } from "@waybill/core";
import { Client } from "pg";
import { databaseTarget, diagnoseDatabase } from "./database-errors.ts";

/** Limit of one connection attempt, in milliseconds. */
export const connectTimeoutMs = 10_000;
/** Limit of one statement of a command, in milliseconds: a command never hangs behind a lock. */
const statementTimeoutMs = 60_000;

/** A connection of a command, closed by `await using`. */
export interface CommandDatabase extends AsyncDisposable {
  readonly client: Client;
}

/**
 * Explains an error of the database; anything that is no such error is given back as it is.
 */
export function explainDatabaseError(error: unknown, url: string): unknown {
  if (WaybillError.is(error)) return error;
  return diagnoseDatabase(error, url)?.error ?? error;
}

/**
 * Connects to PostgreSQL.
 *
 * @throws DatabaseUnavailableError that says what is wrong and what to do, within 10 seconds
 */
export async function connectDatabase(url: string): Promise<CommandDatabase> {
  try {
    // Reads the files that the URL names.
    const client = new Client({
      connectionString: url,
      application_name: "waybill",
      connectionTimeoutMillis: connectTimeoutMs,
      // By the driver's clock: a pooler would refuse statement_timeout as an unknown parameter.
      query_timeout: statementTimeoutMs,
      keepAlive: true,
    });
    // Without a listener the loss of an idle connection would end the process with a stack trace.
    client.on("error", () => undefined);
    const end = (): Promise<void> => client.end().catch(() => undefined);
    await client.connect().catch(async (error: unknown) => {
      await end();
      throw error;
    });
    return { client, [Symbol.asyncDispose]: end };
  } catch (error) {
    throw (
      diagnoseDatabase(error, url)?.error ??
      new DatabaseUnavailableError(
        `Cannot use PostgreSQL at ${databaseTarget(url).display}: ${error instanceof Error ? error.message : String(error)}. ` +
          `Check DATABASE_URL and the server's log.`,
        { cause: error },
      )
    );
  }
}

/** Runs `work` with a connection of its own. */
export async function withDatabase<T>(
  url: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  await using database = await connectDatabase(url);
  try {
    return await work(database.client);
  } catch (error) {
    throw explainDatabaseError(error, url);
  }
}
