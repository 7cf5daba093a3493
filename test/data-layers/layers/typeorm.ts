import { typeormDatabase } from "@waybill/postgres";
import { DataSource, type EntityManager } from "typeorm";

import type { Layer } from "./layer.ts";

/** TypeORM: a transaction is the manager that is handed to the callback. */
export async function openTypeOrm(url: string): Promise<Layer<EntityManager>> {
  const dataSource = new DataSource({ type: "postgres", url, poolSize: 4 });
  await dataSource.initialize();
  const runner = dataSource.createQueryRunner();
  return {
    database: typeormDatabase(dataSource),
    run: (manager, sql) => manager.query(sql),
    savepoint: (manager, work) => manager.transaction(work),
    impostors: {
      "the data source's manager": dataSource.manager,
      "the manager of a query runner without a transaction": runner.manager,
    },
    leave: () => dataSource.manager,
    async [Symbol.asyncDispose]() {
      await runner.release();
      await dataSource.destroy();
    },
  };
}
