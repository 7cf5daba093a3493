import { type EntityManager, MikroORM } from "@mikro-orm/postgresql";
import { mikroOrmDatabase } from "@waybill/postgres";

import type { Layer } from "./layer.ts";

/** MikroORM: a transaction is the entity manager of `em.transactional`. */
export async function openMikroOrm(url: string): Promise<Layer<EntityManager>> {
  const orm = await MikroORM.init({
    clientUrl: url,
    entities: [],
    discovery: { warnWhenNoEntities: false },
    pool: { max: 4 },
  });
  return {
    database: mikroOrmDatabase(orm.em),
    run: (em, sql) => em.execute(sql),
    savepoint: (em, work) => em.transactional(work),
    impostors: { "the global entity manager": orm.em, "a fork": orm.em.fork() },
    leave: (em) => em.fork(),
    [Symbol.asyncDispose]: () => orm.close(),
  };
}
