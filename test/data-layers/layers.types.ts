/**
 * What the compiler must say about each layer; `types.test.ts` runs it, nothing here is executed.
 * A line under `@ts-expect-error` fails the compilation where it compiles.
 */

import type { MikroORM } from "@mikro-orm/postgresql";
import {
  createOutbox,
  drizzleDatabase,
  knexDatabase,
  kyselyDatabase,
  mikroOrmDatabase,
  pgDatabase,
  postgresJsDatabase,
  prismaDatabase,
  sequelizeDatabase,
  typeormDatabase,
} from "@waybill/postgres";
import { sql as drizzleSql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import type { Knex } from "knex";
import type { ControlledTransaction, Kysely, Transaction as KyselyTransaction } from "kysely";
import type { Pool, PoolClient } from "pg";
import type { ReservedSql, Sql, TransactionSql } from "postgres";
import type { Sequelize, Transaction as SequelizeTransaction } from "sequelize";
import type { DataSource, EntityManager } from "typeorm";
import { expectTypeOf } from "vitest";

import { note } from "./bench.ts";
import type { Prisma, PrismaClient } from "./dist/prisma/client.ts";
import type { Tables } from "./layers/kysely.ts";

export async function pg(pool: Pool): Promise<void> {
  const database = pgDatabase(pool);
  const outbox = createOutbox({ database });
  const id = await database.transaction(async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<PoolClient>();
    return (await outbox.enqueue(tx, note, 1)).jobId;
  });
  expectTypeOf(id).toEqualTypeOf<string>();
  // @ts-expect-error -- a pool is no transaction
  await outbox.enqueue(pool, note, 1);
  // @ts-expect-error -- nor for a bulk
  await outbox.enqueueMany(pool, note, []);
  // @ts-expect-error -- a function is not JSON
  await database.transaction((tx) => outbox.enqueue(tx, note, () => 1));
  await outbox.enqueue(pool, note, 1, { autocommit: true });
}

export async function postgresJs(sql: Sql, reserved: ReservedSql): Promise<void> {
  const database = postgresJsDatabase(sql);
  const outbox = createOutbox({ database });
  await database.transaction(async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<TransactionSql>();
    await outbox.enqueue(tx, note, 1);
    await tx.savepoint((nested) => outbox.enqueue(nested, note, 1));
  });
  await sql.begin((tx) => outbox.enqueue(tx, note, 1));
  // @ts-expect-error -- the root sql is no transaction
  await outbox.enqueue(sql, note, 1);
  // @ts-expect-error -- neither is a reserved connection
  await outbox.enqueue(reserved, note, 1);
}

export async function drizzle(onPg: NodePgDatabase, onJs: PostgresJsDatabase): Promise<void> {
  const outbox = createOutbox({ database: drizzleDatabase(onPg, drizzleSql) });
  await onPg.transaction(async (tx) => {
    await outbox.enqueue(tx, note, 1);
    await tx.transaction((nested) => outbox.enqueue(nested, note, 1));
  });
  // @ts-expect-error -- the root db is no transaction
  await outbox.enqueue(onPg, note, 1);
  const jsOutbox = createOutbox({ database: drizzleDatabase(onJs, drizzleSql) });
  await onJs.transaction((tx) => jsOutbox.enqueue(tx, note, 1));
  // @ts-expect-error -- the root db is no transaction
  await jsOutbox.enqueue(onJs, note, 1);
}

export async function kysely(
  db: Kysely<Tables>,
  controlled: ControlledTransaction<Tables>,
): Promise<void> {
  const database = kyselyDatabase(db);
  const outbox = createOutbox({ database });
  await database.transaction(async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<KyselyTransaction<Tables>>();
    await tx.insertInto("orders").values({ id: 1, note: "" }).execute();
    await outbox.enqueue(tx, note, 1);
  });
  await outbox.enqueue(controlled, note, 1);
  // @ts-expect-error -- the root db is no transaction
  await outbox.enqueue(db, note, 1);
}

export async function prisma(client: PrismaClient): Promise<void> {
  const database = prismaDatabase(client);
  const outbox = createOutbox({ database });
  await database.transaction(async (tx) => {
    await tx.order.create({ data: { id: 1, note: "" } });
    await outbox.enqueue(tx, note, 1);
  });
  await client.$transaction((tx: Prisma.TransactionClient) => outbox.enqueue(tx, note, 1));
  // @ts-expect-error -- the root client is no transaction
  await outbox.enqueue(client, note, 1);
}

export async function knex(root: Knex): Promise<void> {
  const database = knexDatabase(root);
  const outbox = createOutbox({ database });
  await database.transaction(async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<Knex.Transaction>();
    await tx("orders").insert({ id: 1, note: "" });
    await outbox.enqueue(tx, note, 1);
  });
  // @ts-expect-error -- the root knex is no transaction
  await outbox.enqueue(root, note, 1);
}

export async function typeorm(source: DataSource): Promise<void> {
  const database = typeormDatabase(source);
  const outbox = createOutbox({ database });
  await database.transaction(async (manager) => {
    expectTypeOf(manager).toEqualTypeOf<EntityManager>();
    await outbox.enqueue(manager, note, 1);
  });
  // @ts-expect-error -- a data source is no transaction; its manager is refused at run time only
  await outbox.enqueue(source, note, 1);
}

export async function sequelize(instance: Sequelize): Promise<void> {
  const database = sequelizeDatabase(instance);
  const outbox = createOutbox({ database });
  await database.transaction(async (transaction) => {
    expectTypeOf(transaction).toEqualTypeOf<SequelizeTransaction>();
    await outbox.enqueue(transaction, note, 1);
  });
  // @ts-expect-error -- the instance is no transaction
  await outbox.enqueue(instance, note, 1);
}

export async function mikroOrm(orm: MikroORM): Promise<void> {
  const database = mikroOrmDatabase(orm.em);
  const outbox = createOutbox({ database });
  await orm.em.fork().transactional((em) => outbox.enqueue(em, note, 1));
  await database.transaction(async (em) => {
    expectTypeOf(em).toEqualTypeOf<MikroORM["em"]>();
    await outbox.enqueue(em, note, 1);
  });
  // @ts-expect-error -- the ORM is no transaction; orm.em is refused at run time only
  await outbox.enqueue(orm, note, 1);
}
