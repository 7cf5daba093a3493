import type { Database, Row, SqlExecutor } from "../executor.ts";
import { questionMarksOf } from "./placeholders.ts";

/** A Knex transaction (or Objection's, which is one), by its shape. A root `knex` does not fit. */
export interface KnexTransactionLike {
  isCompleted(): boolean;
  // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
  raw(sql: string, bindings: any): PromiseLike<any>;
}

/** A Knex instance with the client `pg`, by its shape. */
export interface KnexLike<Tx> {
  // Never called in the first two forms: TypeScript infers Tx only where there are as many
  // overloads as the layer has.
  transaction(config?: object): Promise<Tx>;
  transaction(work?: null, config?: object): Promise<Tx>;
  transaction<T>(work: (tx: Tx) => Promise<T>, config?: object): Promise<T>;
}

function executorOf(tx: KnexTransactionLike): SqlExecutor {
  return {
    query: async (text, params) => {
      const result = (await tx.raw(questionMarksOf(text), [...params])) as {
        readonly rows: readonly Row[];
      };
      return { rows: result.rows };
    },
    // The root knex says isTransaction false or has none.
    inTransaction: () => "isTransaction" in tx && tx.isTransaction === true && !tx.isCompleted(),
  };
}

/** The database behind a Knex instance. */
export function knexDatabase<Tx extends KnexTransactionLike>(knex: KnexLike<Tx>): Database<Tx> {
  return {
    transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      // The call would match the first overload, since a function is an object.
      const run = knex as { transaction(work: (tx: Tx) => Promise<T>): Promise<T> };
      return run.transaction(work);
    },
    executor: executorOf,
  };
}
