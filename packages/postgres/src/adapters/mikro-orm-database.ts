import type { Database, Row, SqlExecutor } from "../executor.ts";
import { questionMarksOf } from "./placeholders.ts";

/** A MikroORM `SqlEntityManager`, by its shape; in `em.transactional` it is the transaction. */
export interface MikroOrmManagerLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
  execute(query: string, params?: any): Promise<any>;
  isInTransaction(): boolean;
}

/** The entity manager that transactions are opened on (`orm.em`), by its shape. */
export interface MikroOrmLike<Tx> {
  fork(): { transactional<T>(work: (em: Tx) => Promise<T>): Promise<T> };
}

function executorOf(em: MikroOrmManagerLike): SqlExecutor {
  return {
    query: async (text, params) => ({
      rows: (await em.execute(questionMarksOf(text), [...params])) as Row[],
    }),
    inTransaction: () => typeof em.isInTransaction === "function" && em.isInTransaction(),
  };
}

/**
 * The database behind a MikroORM entity manager (`orm.em`): every transaction is one of a fork.
 *
 * `em.transactional` flushes at its end. `em.fork()` inside it leaves the transaction, and such an
 * entity manager is refused at run time; its type is the same.
 */
export function mikroOrmDatabase<Tx extends MikroOrmManagerLike>(
  em: MikroOrmLike<Tx> & Tx,
): Database<Tx> {
  return {
    transaction: (work) => em.fork().transactional(work),
    executor: executorOf,
  };
}
