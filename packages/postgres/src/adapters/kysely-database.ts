import type { Database, Row, SqlExecutor } from "../executor.ts";

/** A Kysely `Transaction` or `ControlledTransaction`, by its shape. A root `Kysely` does not fit. */
export interface KyselyTransactionLike {
  readonly isTransaction: true;
  withoutPlugins(): {
    // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
    executeQuery(query: any): Promise<{ rows: unknown[] }>;
  };
}

/** A Kysely instance with a PostgreSQL dialect, by its shape. */
export interface KyselyLike<Tx> {
  transaction(): { execute<T>(work: (tx: Tx) => Promise<T>): Promise<T> };
}

let queries = 0;

/** What Kysely's `CompiledQuery.raw` makes, so that it need not be imported. */
function compiledQuery(text: string, params: readonly string[]): object {
  queries += 1;
  return {
    sql: text,
    parameters: params,
    query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
    queryId: { queryId: `waybill_${queries}` },
  };
}

function executorOf(tx: KyselyTransactionLike): SqlExecutor {
  return {
    query: async (text, params) => {
      // Plugins such as CamelCasePlugin rename the columns of a result.
      const { rows } = await tx.withoutPlugins().executeQuery(compiledQuery(text, params));
      return { rows: rows as Row[] };
    },
    // A root Kysely says false, whatever the type says, and anything else says nothing.
    inTransaction: () => (tx as { readonly isTransaction?: boolean }).isTransaction === true,
  };
}

/** The database behind a Kysely instance. */
export function kyselyDatabase<Tx extends KyselyTransactionLike>(db: KyselyLike<Tx>): Database<Tx> {
  return {
    transaction: (work) => db.transaction().execute(work),
    executor: executorOf,
  };
}
