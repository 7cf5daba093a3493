import { drizzleDatabase } from "@waybill/postgres";
import { sql } from "drizzle-orm";
import { drizzle as drizzleOnPg, type NodePgDatabase } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOnPostgresJs, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import { Pool } from "pg";
import postgres from "postgres";

import type { Layer } from "./layer.ts";

type PgTransaction = Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0];
type PostgresJsTransaction = Parameters<Parameters<PostgresJsDatabase["transaction"]>[0]>[0];

/** Drizzle on pg. */
export async function openDrizzleOnPg(url: string): Promise<Layer<PgTransaction>> {
  const pool = new Pool({ connectionString: url, max: 4 });
  const db = drizzleOnPg(pool);
  return {
    database: drizzleDatabase(db, sql),
    run: async (tx, text) => await tx.execute(sql.raw(text)),
    savepoint: (tx, work) => tx.transaction(work),
    impostors: { "the root db": db },
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

/** Drizzle on postgres.js. */
export async function openDrizzleOnPostgresJs(url: string): Promise<Layer<PostgresJsTransaction>> {
  const client = postgres(url, { max: 4 });
  const db = drizzleOnPostgresJs(client);
  return {
    database: drizzleDatabase(db, sql),
    run: async (tx, text) => await tx.execute(sql.raw(text)),
    savepoint: (tx, work) => tx.transaction(work),
    impostors: { "the root db": db },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
