import { kyselyDatabase } from "@waybill/postgres";
import { CamelCasePlugin, Kysely, PostgresDialect, sql, type Transaction } from "kysely";
import { Pool } from "pg";

import { type Layer, savepointInSql } from "./layer.ts";

/** Tables of the application; the suite writes by raw SQL. */
export interface Tables {
  readonly orders: { readonly id: number; readonly note: string };
}

const run = (tx: Transaction<Tables>, text: string): Promise<unknown> => sql.raw(text).execute(tx);

/** Kysely, with the plugin that renames the columns of every result. */
export async function openKysely(url: string): Promise<Layer<Transaction<Tables>>> {
  const db = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: new Pool({ connectionString: url, max: 4 }) }),
    plugins: [new CamelCasePlugin()],
  });
  return {
    database: kyselyDatabase(db),
    run,
    savepoint: (tx, work) => savepointInSql(run, tx, work),
    impostors: { "the root db": db },
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}
