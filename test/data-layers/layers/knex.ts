import { knexDatabase } from "@waybill/postgres";
import createKnex, { type Knex } from "knex";

import type { Layer } from "./layer.ts";

/** Knex; Objection's transactions are Knex's. */
export async function openKnex(url: string): Promise<Layer<Knex.Transaction>> {
  const knex = createKnex({ client: "pg", connection: url, pool: { min: 0, max: 4 } });
  return {
    database: knexDatabase(knex),
    run: async (tx, sql) => await tx.raw(sql),
    savepoint: (tx, work) => tx.transaction(work),
    impostors: { "the root knex": knex },
    [Symbol.asyncDispose]: () => knex.destroy(),
  };
}
