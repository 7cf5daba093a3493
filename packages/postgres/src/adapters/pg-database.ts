/**
 * The adapter for `pg` (node-postgres): one function owns the checkout of a client.
 *
 * What it must never do: leave a transaction open, give a client in doubt back to the pool, or let
 * an `error` event end the process (a checked-out client has no listener of the pool's, so a server
 * that ends the session would).
 */

import { TransactionMisusedError } from "@waybill/core";
import type { Database, Row, SqlExecutor } from "../executor.ts";

/** A `pg` client by its shape: what a transaction of {@link pgDatabase} is. A Pool does not fit. */
export interface PgTransactionLike {
  // oxlint-disable-next-line typescript/no-explicit-any -- the driver's own types
  query(text: string, values?: any[]): Promise<{ rows: any[]; command?: string }>;
  /** `I` idle, `T` in a transaction, `E` in a failed one; `pg` 8.21 and newer. */
  getTransactionStatus?(): string | null;
  readonly totalCount?: never;
}

/** A client that was checked out of a pool. */
export interface PgPoolClientLike extends PgTransactionLike {
  release(err?: Error | boolean): void;
  // oxlint-disable-next-line typescript/no-explicit-any -- the driver's own types
  on(event: "error", listener: (error: Error) => void): any;
  // oxlint-disable-next-line typescript/no-explicit-any -- the driver's own types
  removeListener(event: "error", listener: (error: Error) => void): any;
}

/** A `pg` Pool by its shape. */
export interface PgPoolLike<Tx> {
  connect(): Promise<Tx>;
  // Never called: TypeScript infers Tx only where there are as many overloads as the driver has.
  connect(callback: unknown): void;
  readonly totalCount: number;
  readonly options?: { readonly max?: number | undefined } | undefined;
}

/** Statements on a `pg` client. */
export function pgExecutor(client: PgTransactionLike): SqlExecutor {
  return {
    query: async (text, params) => {
      const { rows } = await client.query(text, [...params]);
      return { rows: rows as readonly Row[] };
    },
    inTransaction: () => {
      // A Pool has no status; neither has a client of an old pg, of which nothing can be told.
      if ("totalCount" in client || typeof client.query !== "function") return false;
      const status = client.getTransactionStatus?.() ?? null;
      return status === null ? undefined : status !== "I";
    },
  };
}

/** First words of a statement that begins or ends a transaction; savepoints are the caller's. */
const boundary =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(?:begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:work\s+|transaction\s+)?to\b))\b/i;

const textOf = (statement: unknown): string => {
  if (typeof statement === "string") return statement;
  if (typeof statement === "object" && statement !== null && "text" in statement) {
    return String(statement.text);
  }
  return "";
};

const refuse = (fact: string): Promise<never> =>
  Promise.reject(new TransactionMisusedError(`Cannot use this transaction: ${fact}`));

const refuseRelease = (): never => {
  throw new TransactionMisusedError(
    "Cannot release this client: it belongs to the function that gave it, which releases it.",
  );
};

/**
 * The client as the handler sees it: it refuses to begin or end a transaction, and refuses
 * everything once the transaction is over, when the client may be somebody else's.
 */
function guard<Tx extends PgPoolClientLike>(
  client: Tx,
): { readonly tx: Tx; close(): void; firstError(): unknown } {
  let open = true;
  let first: unknown;
  const query = (...args: unknown[]): unknown => {
    if (!open) {
      return refuse("it has ended. Await every query inside the function that got it.");
    }
    const text = textOf(args[0]);
    if (boundary.test(text)) {
      return refuse(
        "it is begun and ended by the function that gave it. Return to commit, throw to roll back; use savepoints inside.",
      );
    }
    const result: unknown = (client.query as (...args: unknown[]) => unknown).apply(client, args);
    if (result instanceof Promise) result.catch((error: unknown) => (first ??= error));
    return result;
  };
  const tx = new Proxy(client, {
    get(target, key) {
      if (key === "query") return query;
      if (key === "release") return refuseRelease;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { tx, close: () => void (open = false), firstError: () => first };
}

async function runInTransaction<Tx extends PgPoolClientLike, T>(
  client: Tx,
  work: (tx: Tx) => Promise<T>,
  settled: () => void,
): Promise<T> {
  await client.query("BEGIN");
  const guarded = guard(client);
  let result: T;
  try {
    result = await work(guarded.tx);
  } catch (error) {
    guarded.close();
    // Where this fails too, the client is discarded; the work's error is the one to report.
    await client.query("ROLLBACK").then(settled, () => undefined);
    throw error;
  }
  guarded.close();
  const status = client.getTransactionStatus?.() ?? null;
  if (status === "I") {
    throw new TransactionMisusedError(
      "Cannot commit: the transaction was ended by the function that got it. Return to commit, throw to roll back.",
      { cause: guarded.firstError() },
    );
  }
  if (status !== "E") {
    const { command } = await client.query("COMMIT");
    settled();
    // COMMIT of a failed transaction answers ROLLBACK, without an error.
    if (command !== "ROLLBACK") return result;
  } else {
    await client.query("ROLLBACK");
    settled();
  }
  throw new TransactionMisusedError(
    "Cannot commit: a statement failed and its error was swallowed, so PostgreSQL keeps nothing of the transaction. Let the error through, or use a savepoint.",
    { cause: guarded.firstError() },
  );
}

/**
 * The database behind a `pg` Pool.
 *
 * A transaction takes a client, begins, runs, commits; on an error it rolls back. A client that may
 * not be clean (its connection failed, the transaction was ended by the work) is discarded, never
 * reused. Nothing is set on the session. When COMMIT itself fails for the connection, its outcome
 * is unknown; the error passes through.
 *
 * @throws TransactionMisusedError where the work ended the transaction itself or swallowed the error
 *   of a statement
 */
export function pgDatabase<Tx extends PgPoolClientLike>(pool: PgPoolLike<Tx>): Database<Tx> {
  return {
    async transaction(work) {
      const client = await pool.connect();
      let broken: Error | undefined;
      let clean = false;
      const onError = (error: Error): void => {
        broken ??= error;
      };
      client.on("error", onError);
      try {
        return await runInTransaction(client, work, () => (clean = true));
      } finally {
        if (clean && broken === undefined) {
          client.removeListener("error", onError);
          client.release();
        } else {
          // The listener stays: a discarded client may still report the end of its connection.
          client.release(broken ?? true);
        }
      }
    },
    executor: pgExecutor,
    poolSize: pool.options?.max,
  };
}
