import { WaybillError } from "@waybill/core";
import { sqlStateOf } from "./database-errors.ts";

/** Classes of SQLSTATE that the same statement meets again: no table, no right, no login, wrong data. */
const lasting = /^(?:0A|22|28|3D|3F|42)/;

/**
 * How data layers refuse a statement once the application has closed them: pg, postgres.js, Knex,
 * Kysely, Sequelize.
 */
const closed =
  /after calling end on the pool|CONNECTION_ENDED|Unable to acquire a connection|already been destroyed|connection manager was closed/;

/**
 * True for an error that trying again does not mend: the schema is missing, the role may not, the pool
 * is closed, a program is wrong. Anything else is taken for a database that comes back.
 */
export function isLastingError(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== undefined) return lasting.test(state);
  if (WaybillError.is(error)) return error.code !== "WAYBILL_DATABASE_UNAVAILABLE";
  if (error instanceof TypeError || error instanceof ReferenceError) return true;
  return error instanceof Error && closed.test(error.message);
}
