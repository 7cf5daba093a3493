import { postgresJsDatabase } from "@waybill/postgres";
import postgres, { type Options, type TransactionSql } from "postgres";

import type { Layer } from "./layer.ts";

/** postgres.js: a transaction is the `sql` that `sql.begin` hands to its callback. */
export async function openPostgresJs(
  url: string,
  options: Options<Record<string, never>> = {},
): Promise<Layer<TransactionSql>> {
  const sql = postgres(url, { max: 4, ...options });
  // postgres.js 3.4.9: reserve() never resolves on a first connection without fetched types.
  const reserved = options.fetch_types === false ? undefined : await sql.reserve();
  return {
    database: postgresJsDatabase(sql),
    run: (tx, text) => tx.unsafe(text),
    savepoint: (tx, work) => tx.savepoint(work),
    impostors: {
      "the root sql": sql,
      ...(reserved === undefined ? {} : { "a reserved connection": reserved }),
    },
    async [Symbol.asyncDispose]() {
      reserved?.release();
      await sql.end();
    },
  };
}
