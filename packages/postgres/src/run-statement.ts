import type { SqlConnection } from "./executor.ts";
import type { Statement } from "./statements.ts";

/** Rows by the columns that the statement is known to have. */
export interface Answer<T> {
  readonly rows: readonly T[];
  readonly first: T | undefined;
  readonly count: number;
}

/** Runs a statement of the relay. */
export type Run = ReturnType<typeof runner>;

/** Runs statements on a connection. */
export function runner(
  connection: SqlConnection,
  prepare: boolean,
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
