import { DatabaseUnavailableError } from "@waybill/core";
import { sqlStateOf, unavailableError } from "./database-errors.ts";
import type { SqlConnection } from "./executor.ts";
import { rolesText } from "./sql.generated.ts";
import { defaultSchema, inSchema } from "./statements.ts";

/** Options of {@link grantRoles}. */
export interface GrantRolesOptions {
  /**
   * Schema that holds Waybill's tables; its roles begin with this name.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
}

/** Names of the parts that have a role. */
const parts = ["app", "relay", "worker", "operator", "viewer"] as const;

/** The roles of a schema, as sql/roles.sql names them. */
export function roleNames(schema: string = defaultSchema): readonly string[] {
  return parts.map((part) => `${schema}_${part}`);
}

/** The file names the schema and its roles as a reader would; both are other ones in another schema. */
function textIn(schema: string): string {
  return inSchema(rolesText, schema)
    .replaceAll(/\bschema waybill\b/g, `schema "${schema}"`)
    .replaceAll(new RegExp(`\\bwaybill_(${parts.join("|")})\\b`, "g"), `${schema}_$1`);
}

/**
 * Creates the roles of a schema where they are missing, and gives each the rights of its part: all of
 * sql/roles.sql, in one transaction. Safe to repeat; to be repeated after each migration, since new
 * tables come without rights.
 *
 * @param connection of the schema's owner; CREATEROLE is needed while a role is missing. No transaction may
 *   be open on it
 * @throws DatabaseUnavailableError for a missing privilege, with what to do
 * @throws NameError for a name outside the rules of schema names
 */
export async function grantRoles(
  connection: SqlConnection,
  { schema = defaultSchema }: GrantRolesOptions = {},
): Promise<void> {
  try {
    await connection.query({ text: textIn(schema) });
  } catch (error) {
    if (sqlStateOf(error) !== "42501") {
      throw unavailableError(`set up the roles of schema "${schema}"`, error) ?? error;
    }
    throw new DatabaseUnavailableError(
      `Cannot set up the roles of schema "${schema}": the database user lacks a privilege (${(error as Error).message}). ` +
        `Do it as the schema's owner; where the roles do not exist yet, with CREATEROLE, or let an administrator run sql/roles.sql once.`,
      { cause: error },
    );
  }
}
