/**
 * The seam to the application's data layer. Waybill's statements run on the application's own
 * transaction through a {@link SqlExecutor}; what differs between the layers is in the adapters.
 *
 * Statements that run here keep to what every layer passes on unchanged: text parameters only,
 * each `$n` once and in order, no literal `?`, result columns that are single lower-case words of
 * type text.
 */

/** A row: text columns, null where SQL is null. */
export type Row = Readonly<Record<string, unknown>>;

/** Runs statements on one connection, inside whatever transaction is open there. */
export interface SqlExecutor {
  query(text: string, params: readonly string[]): Promise<{ readonly rows: readonly Row[] }>;
  /** True or false where the layer can tell, undefined where it cannot. */
  inTransaction?(): boolean | undefined;
}

/** An application's data layer: how a transaction is opened, and how statements run inside it. */
export interface Database<Tx> {
  /**
   * Runs `work` in a transaction: commits when it resolves, rolls back when it rejects, and
   * rejects with the same error.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Statements on the given transaction. */
  executor(tx: Tx): SqlExecutor;
  /** Connections it has at most, where it can tell: transactions that can run at a time. */
  readonly poolSize?: number | undefined;
}

/** A connection of Waybill's own (relay, worker, CLI): a `pg` Client or Pool, by its shape. */
export interface SqlConnection {
  query(statement: {
    readonly name?: string;
    readonly text: string;
    readonly values?: unknown[];
  }): Promise<{ readonly rows: Record<string, unknown>[]; readonly rowCount: number | null }>;
}
