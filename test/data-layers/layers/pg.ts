import { pgDatabase } from "@waybill/postgres";
import { Pool, type PoolClient } from "pg";

import { type Layer, savepointInSql } from "./layer.ts";

const run = (tx: PoolClient, sql: string): Promise<unknown> => tx.query(sql);

/** pg: a transaction is the client that it runs on. */
export async function openPg(url: string): Promise<Layer<PoolClient>> {
  const pool = new Pool({ connectionString: url, max: 4 });
  const idle = await pool.connect();
  return {
    database: pgDatabase(pool),
    run,
    savepoint: (tx, work) => savepointInSql(run, tx, work),
    impostors: { "the pool": pool, "a client without a transaction": idle },
    async [Symbol.asyncDispose]() {
      idle.release();
      await pool.end();
    },
  };
}
