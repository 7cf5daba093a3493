import type { Database, Row, SqlExecutor } from "../executor.ts";
import { templateOf } from "./placeholders.ts";

/** The `tx` of Drizzle's `db.transaction`, by its shape. The root `db` does not fit. */
export interface DrizzleTransactionLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
  execute(query: any): PromiseLike<any>;
  rollback(): never;
}

/** A Drizzle `db` of a PostgreSQL driver, by its shape. */
export interface DrizzleLike<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** The tag `sql` of drizzle-orm. */
export interface DrizzleSql {
  (strings: TemplateStringsArray, ...values: unknown[]): unknown;
  param(value: unknown): unknown;
}

function executorOf(tx: DrizzleTransactionLike, sql: DrizzleSql): SqlExecutor {
  return {
    query: async (text, params) => {
      const values = params.map((param) => sql.param(param));
      const result = (await tx.execute(sql(templateOf(text), ...values))) as
        | Iterable<Row>
        | { readonly rows: readonly Row[] };
      // node-postgres gives a result with rows, postgres.js an array.
      return { rows: "rows" in result ? result.rows : [...result] };
    },
    inTransaction: () => typeof tx.rollback === "function",
  };
}

/**
 * The database behind a Drizzle `db` (drivers node-postgres and postgres-js).
 *
 * Drizzle runs only queries that its own tag made, so that is passed too:
 * `drizzleDatabase(db, sql)` with the `sql` that drizzle-orm exports.
 */
export function drizzleDatabase<Tx extends DrizzleTransactionLike>(
  db: DrizzleLike<Tx>,
  sql: DrizzleSql,
): Database<Tx> {
  return {
    transaction: (work) => db.transaction(work),
    executor: (tx) => executorOf(tx, sql),
  };
}
