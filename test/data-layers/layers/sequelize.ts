import { sequelizeDatabase } from "@waybill/postgres";
import { Sequelize, type Transaction } from "sequelize";

import type { Layer } from "./layer.ts";

/** Sequelize 6. */
export async function openSequelize(url: string): Promise<Layer<Transaction>> {
  const sequelize = new Sequelize(url, { logging: false, pool: { max: 4 } });
  return {
    database: sequelizeDatabase(sequelize),
    run: (transaction, sql) => sequelize.query(sql, { transaction }),
    savepoint: (transaction, work) => sequelize.transaction({ transaction }, work),
    impostors: { "the sequelize instance": sequelize },
    [Symbol.asyncDispose]: () => sequelize.close(),
  };
}
