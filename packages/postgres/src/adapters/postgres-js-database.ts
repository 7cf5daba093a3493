import type { Database, Row, SqlExecutor } from "../executor.ts";

/** The `sql` that `sql.begin` hands to its callback, by its shape. The root `sql` does not fit. */
export interface PostgresJsTransactionLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the driver's own types
  unsafe(query: string, values?: any[]): PromiseLike<any>;
  readonly savepoint: unknown;
}

/** The root `sql` of postgres.js, or of Bun.SQL, by its shape. */
export interface PostgresJsLike<Tx> {
  begin(work: (sql: Tx) => Promise<void>): Promise<unknown>;
  // Never called: TypeScript infers Tx only where there are as many overloads as the driver has.
  begin(options: string, work: (sql: Tx) => Promise<void>): Promise<unknown>;
}

function executorOf(sql: PostgresJsTransactionLike): SqlExecutor {
  return {
    query: async (text, params) => {
      const rows = (await sql.unsafe(text, [...params])) as Iterable<Row>;
      return { rows: [...rows] };
    },
    inTransaction: () => typeof sql.savepoint === "function",
  };
}

/**
 * The database behind a postgres.js `sql` or a `Bun.SQL`.
 *
 * Behind a transaction pooler such as PgBouncer create it with `prepare: false`.
 */
export function postgresJsDatabase<Tx extends PostgresJsTransactionLike>(
  sql: PostgresJsLike<Tx>,
): Database<Tx> {
  return {
    async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      // Kept outside: begin() awaits the elements of an array that its callback returns.
      const kept: { result?: T } = {};
      await sql.begin(async (tx) => {
        kept.result = await work(tx);
      });
      return kept.result as T;
    },
    executor: executorOf,
  };
}
