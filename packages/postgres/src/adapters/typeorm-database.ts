import type { Database, Row, SqlExecutor } from "../executor.ts";

/** The `EntityManager` of TypeORM's `dataSource.transaction`, by its shape. */
export interface TypeOrmManagerLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the layer's own types
  query(text: string, parameters?: any[]): Promise<any>;
  readonly queryRunner?: { readonly isTransactionActive: boolean } | undefined;
}

/** A TypeORM `DataSource`, by its shape. */
export interface TypeOrmDataSourceLike<Tx> {
  transaction<T>(work: (manager: Tx) => Promise<T>): Promise<T>;
  // Never called: TypeScript infers Tx only where there are as many overloads as the layer has.
  transaction<T>(isolation: never, work: (manager: Tx) => Promise<T>): Promise<T>;
}

function executorOf(manager: TypeOrmManagerLike): SqlExecutor {
  return {
    query: async (text, params) => {
      const result = (await manager.query(text, [...params])) as Row[] | [Row[], number];
      // update and delete give [rows, count], select the rows.
      return { rows: Array.isArray(result[0]) ? result[0] : (result as Row[]) };
    },
    inTransaction: () => manager.queryRunner?.isTransactionActive ?? false,
  };
}

/**
 * The database behind a TypeORM `DataSource`.
 *
 * `dataSource.manager` has the type of a transaction's manager; it is refused at run time.
 */
export function typeormDatabase<Tx extends TypeOrmManagerLike>(
  dataSource: TypeOrmDataSourceLike<Tx>,
): Database<Tx> {
  return {
    transaction: (work) => dataSource.transaction(work),
    executor: executorOf,
  };
}
