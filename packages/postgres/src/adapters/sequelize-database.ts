import type { Database, Row, SqlExecutor } from "../executor.ts";

/** A Sequelize 6 `Transaction`, by its shape. */
export interface SequelizeTransactionLike {
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** A Sequelize 6 instance with the dialect `postgres`, by its shape. */
export interface SequelizeLike<Tx> {
  // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
  query(sql: string, options?: any): Promise<unknown>;
  // The last overload of the layer's; the form with a callback is the one that is called.
  transaction(options?: object): Promise<Tx>;
}

function executorOf<Tx extends SequelizeTransactionLike>(
  sequelize: SequelizeLike<Tx>,
  transaction: Tx,
): SqlExecutor {
  return {
    query: async (text, params) => ({
      rows: (await sequelize.query(text, {
        bind: [...params],
        // The instance itself stands for "no transaction", where autocommit is asked for.
        ...(typeof transaction.commit === "function" ? { transaction } : {}),
        type: "SELECT",
        // A logger of the application's would print the payload.
        logging: false,
      })) as Row[],
    }),
    inTransaction: () => {
      if (typeof transaction.commit !== "function") return false;
      const { finished, connection } = transaction as {
        readonly finished?: unknown;
        readonly connection?: unknown;
      };
      // Sequelize runs a query with an ended or foreign transaction outside any, without a word.
      return finished === undefined && connection !== undefined && connection !== null;
    },
  };
}

/** The database behind a Sequelize 6 instance. */
export function sequelizeDatabase<Tx extends SequelizeTransactionLike>(
  sequelize: SequelizeLike<Tx>,
): Database<Tx> {
  return {
    transaction: (work) => {
      const run = sequelize as unknown as {
        transaction<T>(work: (transaction: Tx) => Promise<T>): Promise<T>;
      };
      return run.transaction(work);
    },
    executor: (transaction) => executorOf(sequelize, transaction),
  };
}
