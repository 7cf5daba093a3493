import type { Database } from "@waybill/postgres";

/** A data layer under test: its adapter, and what the suite needs of the layer itself. */
export interface Layer<Tx> extends AsyncDisposable {
  readonly database: Database<Tx>;
  /** Runs the application's own SQL in the transaction, by the layer's own means. */
  run(tx: Tx, sql: string): Promise<unknown>;
  /** Runs `work` between a savepoint and its release, or its rollback where `work` throws. */
  savepoint(tx: Tx, work: (nested: Tx) => Promise<void>): Promise<unknown>;
  /** What is no transaction and may be passed as one by mistake, by name. */
  readonly impostors: Readonly<Record<string, unknown>>;
  /** Makes of a transaction something that has left it, where the layer has such a thing. */
  readonly leave?: ((tx: Tx) => Tx) | undefined;
}

/** Opens a data layer on a database. */
export type OpenLayer<Tx> = (url: string) => Promise<Layer<Tx>>;

/** {@link Layer.savepoint} in SQL, for layers that leave savepoints to it. */
export async function savepointInSql<Tx>(
  run: (tx: Tx, sql: string) => Promise<unknown>,
  tx: Tx,
  work: (nested: Tx) => Promise<void>,
): Promise<void> {
  await run(tx, "savepoint inner_step");
  try {
    await work(tx);
  } catch (error) {
    await run(tx, "rollback to savepoint inner_step");
    throw error;
  }
  await run(tx, "release savepoint inner_step");
}
