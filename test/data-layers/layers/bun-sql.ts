import { postgresJsDatabase, type PostgresJsTransactionLike } from "@waybill/postgres";

import type { Layer } from "./layer.ts";

/** The part of Bun.SQL's `tx` that is used here. */
export interface BunTransaction extends PostgresJsTransactionLike {
  readonly savepoint: (work: (nested: BunTransaction) => Promise<void>) => Promise<unknown>;
}

/** The part of Bun.SQL that is used here; its own types would clash with those of Node. */
interface BunSql {
  begin(work: (tx: BunTransaction) => Promise<void>): Promise<unknown>;
  begin(options: string, work: (tx: BunTransaction) => Promise<void>): Promise<unknown>;
  reserve(): Promise<{ release(): void }>;
  close(): Promise<void>;
}

/** Options of Bun.SQL that are used here. */
interface BunOptions {
  readonly max?: number;
  readonly prepare?: boolean;
}

/** Bun.SQL, which has the shape of postgres.js. Runs under Bun only. */
export async function openBunSql(
  url: string,
  options: BunOptions = {},
): Promise<Layer<BunTransaction>> {
  const { Bun } = globalThis as unknown as {
    readonly Bun: { readonly SQL: new (url: string, options: BunOptions) => BunSql };
  };
  const sql = new Bun.SQL(url, { max: 4, ...options });
  const reserved = await sql.reserve();
  return {
    database: postgresJsDatabase(sql),
    run: async (tx, text) => (await tx.unsafe(text)) as unknown,
    savepoint: (tx, work) => tx.savepoint(work),
    impostors: { "the root sql": sql, "a reserved connection": reserved },
    async [Symbol.asyncDispose]() {
      reserved.release();
      await sql.close();
    },
  };
}
