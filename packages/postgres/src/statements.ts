import { createHash } from "node:crypto";
import { checkSchemaName } from "@waybill/core";
import { queries, type QueryName } from "./sql.generated.ts";

/** A statement of sql/queries, ready for one schema. */
export interface Statement {
  /** Name of its file; with another schema than `waybill` also the schema's. */
  readonly name: string;
  readonly text: string;
}

/** Every statement of sql/queries by the name of its file. */
export type Statements = Readonly<Record<QueryName, Statement>>;

/** The schema where none is given. */
export const defaultSchema = "waybill";

/**
 * Replaces the token `waybill.` by the quoted schema.
 *
 * @throws NameError for a name outside the rules of schema names
 */
export function inSchema(text: string, schema: string): string {
  checkSchemaName(schema);
  if (schema === defaultSchema) return text;
  return text.replace(/\bwaybill\./g, `"${schema}".`);
}

const known = new Map<string, Statements>();

/** PostgreSQL cuts names at 63 bytes, which would make one name of two that end differently. */
function shortened(name: string): string {
  if (name.length <= 63) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 12);
  return `${name.slice(0, 50)}~${hash}`;
}

/**
 * All statements for a schema.
 *
 * @throws NameError for a name outside the rules of schema names
 */
export function statementsFor(schema: string = defaultSchema): Statements {
  const cached = known.get(schema);
  if (cached !== undefined) return cached;
  const entries = Object.entries(queries).map(([name, text]): [string, Statement] => {
    // A prepared statement's name stands for one text on a connection, and a connection may serve
    // two schemas.
    const prepared = schema === defaultSchema ? name : shortened(`${name}@${schema}`);
    return [name, Object.freeze({ name: prepared, text: inSchema(text, schema) })];
  });
  const statements = Object.freeze(Object.fromEntries(entries)) as Statements;
  known.set(schema, statements);
  return statements;
}

/** The channel on which `waybill.enqueue` hints at new rows. */
export function wakeChannel(schema: string = defaultSchema): string {
  return `${checkSchemaName(schema)}.wake`;
}

/** The channel on which changes of watched jobs are told. */
export function jobChannel(schema: string = defaultSchema): string {
  return `${checkSchemaName(schema)}.job`;
}
