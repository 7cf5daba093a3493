/** Looks for the secret, which is in payloads, headers and passwords, wherever it must not be. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Pool } from "pg";
import type { Finding } from "./books.ts";

/** Columns that hold what the application gave. */
const given = ["payload", "headers"];

/** Whatever the processes wrote into files. */
function inFiles(directory: string, secret: string): readonly string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(log|runs|ledger)$/.test(entry.name))
    .filter(({ name }) => readFileSync(join(directory, name), "utf8").includes(secret))
    .map(({ name }) => `the file ${name}`);
}

async function inColumns(pool: Pool, secret: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ table: string; column: string }>(
    `select c.relname as table, a.attname as column
     from pg_class as c
     join pg_namespace as n on n.oid = c.relnamespace
     join pg_attribute as a on a.attrelid = c.oid
     where n.nspname = 'waybill' and c.relkind in ('r', 'p') and not c.relispartition
       and a.attnum > 0 and not a.attisdropped
       and a.atttypid in ('text'::regtype, 'jsonb'::regtype, 'text[]'::regtype)
       and a.attname <> all ($1)`,
    [given],
  );
  const found: string[] = [];
  for (const { table, column } of rows) {
    const { rowCount } = await pool.query(
      `select from waybill."${table}" where position($1 in "${column}"::text) > 0 limit 1`,
      [secret],
    );
    if (rowCount !== 0) found.push(`the column waybill.${table}.${column}`);
  }
  return found;
}

/** Where it was found; nothing where all is well. */
export async function findSecret(
  pool: Pool,
  directory: string,
  secret: string,
): Promise<readonly Finding[]> {
  const places = [...inFiles(directory, secret), ...(await inColumns(pool, secret))];
  return places.map((place) => ({
    what: `the secret of payloads and passwords in ${place}`,
    fault: "broken",
    count: 1,
    jobs: [],
  }));
}
