/** Statements of ours in the application's own transactions. */

import { operatingError } from "./database-errors.ts";
import type { Database, Row, SqlExecutor } from "./executor.ts";
import type { Statement } from "./statements.ts";

/** Runs a statement in the transaction that is open. */
export type RunStatement = (
  statement: Statement,
  params: readonly string[],
) => Promise<readonly Row[]>;

/** Runs `work` in this transaction of the application, or in one of its own where none is given. */
export type Transactions<Tx> = <T>(
  tx: Tx | undefined,
  work: (run: RunStatement) => Promise<T>,
) => Promise<T>;

/** Makes what runs statements. Its errors say what was tried, the likely cause and the next step. */
export function transactionsOf<Tx>(database: Database<Tx>, schema: string): Transactions<Tx> {
  const runOn =
    (executor: SqlExecutor): RunStatement =>
    async (statement, params) => {
      try {
        return (await executor.query(statement.text, params)).rows;
      } catch (error) {
        throw operatingError(`run ${statement.name}`, schema, error) ?? error;
      }
    };
  return async (tx, work) =>
    tx === undefined
      ? database.transaction((own) => work(runOn(database.executor(own))))
      : work(runOn(database.executor(tx)));
}
