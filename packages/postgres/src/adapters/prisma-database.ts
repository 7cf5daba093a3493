import type { Database, Row, SqlExecutor } from "../executor.ts";

/** The client of a Prisma interactive transaction, by its shape. A root client does not fit. */
export interface PrismaTransactionLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the client's own types
  $queryRawUnsafe<T = unknown>(query: string, ...values: any[]): PromiseLike<T>;
  readonly $connect?: never;
}

/** A Prisma client, by its shape. */
export interface PrismaClientLike<Tx> {
  $transaction<T>(
    work: (tx: Tx) => Promise<T>,
    options?: { maxWait?: number; timeout?: number },
  ): Promise<T>;
}

/** Options of {@link prismaDatabase}: Prisma's own limits of an interactive transaction. */
export interface PrismaDatabaseOptions {
  /**
   * Time to wait for a connection, in milliseconds.
   * @default 2000, Prisma's own
   */
  readonly maxWaitMs?: number | undefined;
  /**
   * Time that the whole transaction may take, in milliseconds; a transactional handler that may
   * run longer needs more.
   * @default 5000, Prisma's own
   */
  readonly timeoutMs?: number | undefined;
}

function executorOf(tx: PrismaTransactionLike): SqlExecutor {
  return {
    query: async (text, params) => ({ rows: await tx.$queryRawUnsafe<Row[]>(text, ...params) }),
    inTransaction: () =>
      typeof tx.$queryRawUnsafe === "function" && typeof tx.$connect !== "function",
  };
}

/**
 * The database behind a Prisma 7 client. Transactions are interactive ones; the array form
 * `$transaction([...])` has no transaction object to pass on.
 */
export function prismaDatabase<Tx extends PrismaTransactionLike>(
  client: PrismaClientLike<Tx>,
  options: PrismaDatabaseOptions = {},
): Database<Tx & { readonly $connect?: never }> {
  const limits = {
    ...(options.maxWaitMs === undefined ? {} : { maxWait: options.maxWaitMs }),
    ...(options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs }),
  };
  return {
    transaction: (work) => client.$transaction(work, limits),
    executor: executorOf,
  };
}
