import type { Database } from "@waybill/postgres";

/**
 * Transactions inside the caller's: each is a savepoint, so that a handler that fails leaves the
 * caller's transaction as it was, as it leaves the database in production.
 */
export function inlineTransaction<Tx>(database: Database<Tx>, tx: Tx): Database<Tx>["transaction"] {
  const executor = database.executor(tx);
  return async (work) => {
    await executor.query("savepoint waybill_inline", []);
    let result: Awaited<ReturnType<typeof work>>;
    try {
      result = await work(tx);
    } catch (error) {
      await executor.query("rollback to savepoint waybill_inline", []);
      await executor.query("release savepoint waybill_inline", []);
      throw error;
    }
    await executor.query("release savepoint waybill_inline", []);
    return result;
  };
}
