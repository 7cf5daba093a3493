import type { SqlConnection } from "./executor.ts";
import type { Statement } from "./statements.ts";

/** Options of the stores, which run Waybill's statements on connections of its own. */
export interface StoreOptions {
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /**
   * Named prepared statements; not behind a transaction pooler.
   * @default true
   */
  readonly prepare?: boolean | undefined;
}

/** Rows by the columns that the statement is known to have. */
export interface Answer<T> {
  readonly rows: readonly T[];
  readonly first: T | undefined;
  readonly count: number;
}

/** Runs a statement of a store. */
export type Run = ReturnType<typeof runner>;

/** Runs statements on a connection. */
export function runner(
  connection: SqlConnection,
  { prepare = true }: StoreOptions,
): <T>(statement: Statement, values?: readonly unknown[]) => Promise<Answer<T>> {
  return async <T>(
    { name, text }: Statement,
    values: readonly unknown[] = [],
  ): Promise<Answer<T>> => {
    const plain = { text, values: [...values] };
    const { rows, rowCount } = await connection.query(prepare ? { name, ...plain } : plain);
    const typed = rows as readonly T[];
    return { rows: typed, first: typed[0], count: rowCount ?? 0 };
  };
}
