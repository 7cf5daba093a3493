/** What the guide says of single layers. */

import { EntitySchema, MikroORM } from "@mikro-orm/postgresql";
import { PrismaPg } from "@prisma/adapter-pg";
import {
  createOutbox,
  kyselyDatabase,
  mikroOrmDatabase,
  prismaDatabase,
  typeormDatabase,
} from "@waybill/postgres";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { DataSource } from "typeorm";
import { expect, test } from "vitest";

import { createTestDatabase, type TestDatabase } from "../support/index.ts";
import { note, openBench, prepareDatabase } from "./bench.ts";
import { PrismaClient } from "./dist/prisma/client.ts";
import { openDrizzleOnPg, openDrizzleOnPostgresJs } from "./layers/drizzle.ts";
import { openKnex } from "./layers/knex.ts";
import { openKysely, type Tables } from "./layers/kysely.ts";
import type { OpenLayer } from "./layers/layer.ts";
import { openMikroOrm } from "./layers/mikro-orm.ts";
import { openPg } from "./layers/pg.ts";
import { openPostgresJs } from "./layers/postgres-js.ts";
import { openPrisma } from "./layers/prisma.ts";
import { openSequelize } from "./layers/sequelize.ts";
import { openTypeOrm } from "./layers/typeorm.ts";

async function prepared(): Promise<TestDatabase> {
  const database = await createTestDatabase({ poolSize: 1 });
  await prepareDatabase(database.url);
  return database;
}

const storedJobs = (database: TestDatabase): Promise<unknown[]> =>
  database.rows("select payload from waybill.outbox order by seq");

async function commitOfSwallowedError<Tx>(open: OpenLayer<Tx>, url: string): Promise<string> {
  await using bench = await openBench(open, url);
  const outcome = await bench.layer.database
    .transaction(async (tx) => {
      await bench.order(tx, 1);
      await Promise.resolve(bench.order(tx, 1)).catch(() => undefined);
    })
    .then(
      () => "resolves",
      () => "rejects",
    );
  expect(await bench.orderIds()).toEqual([]);
  return outcome;
}

test("a swallowed error commits nothing; some layers say so at the commit, others do not", async () => {
  await using database = await prepared();
  const { url } = database;

  expect({
    pg: await commitOfSwallowedError(openPg, url),
    "postgres.js": await commitOfSwallowedError(openPostgresJs, url),
    Kysely: await commitOfSwallowedError(openKysely, url),
    "Drizzle on postgres.js": await commitOfSwallowedError(openDrizzleOnPostgresJs, url),
  }).toEqual({
    pg: "rejects",
    "postgres.js": "rejects",
    Kysely: "rejects",
    "Drizzle on postgres.js": "rejects",
  });
  expect({
    "Drizzle on pg": await commitOfSwallowedError(openDrizzleOnPg, url),
    Prisma: await commitOfSwallowedError(openPrisma, url),
    Knex: await commitOfSwallowedError(openKnex, url),
    TypeORM: await commitOfSwallowedError(openTypeOrm, url),
    Sequelize: await commitOfSwallowedError(openSequelize, url),
    MikroORM: await commitOfSwallowedError(openMikroOrm, url),
  }).toEqual({
    "Drizzle on pg": "resolves",
    Prisma: "resolves",
    Knex: "resolves",
    TypeORM: "resolves",
    Sequelize: "resolves",
    MikroORM: "resolves",
  });
});

test("a controlled transaction of Kysely takes jobs until it ends", async () => {
  await using database = await prepared();
  const pool = new Pool({ connectionString: database.url, max: 1 });
  await using db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const outbox = createOutbox({ database: kyselyDatabase(db) });

  const tx = await db.startTransaction().execute();
  await outbox.enqueue(tx, note, "kept");
  const saved = await tx.savepoint("inner_step").execute();
  await outbox.enqueue(saved, note, "taken back");
  await saved.rollbackToSavepoint("inner_step").execute();
  await tx.commit().execute();

  expect(await storedJobs(database)).toEqual([{ payload: '"kept"' }]);
  await expect(outbox.enqueue(tx, note, "late")).rejects.toThrow(/committed/);
});

test("the manager of a query runner of TypeORM takes jobs once its transaction has started", async () => {
  await using database = await prepared();
  const source = new DataSource({ type: "postgres", url: database.url, poolSize: 1 });
  await source.initialize();
  await using _ = { [Symbol.asyncDispose]: () => source.destroy() };
  const outbox = createOutbox({ database: typeormDatabase(source) });
  const runner = source.createQueryRunner();

  await runner.startTransaction();
  await outbox.enqueue(runner.manager, note, "kept");
  await runner.commitTransaction();

  expect(await storedJobs(database)).toEqual([{ payload: '"kept"' }]);
  await expect(outbox.enqueue(runner.manager, note, "late")).rejects.toMatchObject({
    code: "WAYBILL_NOT_IN_TRANSACTION",
  });
  await runner.release();
});

test("entities that MikroORM flushes at the end commit with the job, or fail with it", async () => {
  await using database = await prepared();
  const order = new EntitySchema<{ id: number; note: string }>({
    name: "Order",
    tableName: "orders",
    properties: { id: { type: "number", primary: true }, note: { type: "string" } },
  });
  const orm = await MikroORM.init({ clientUrl: database.url, entities: [order] });
  await using _ = { [Symbol.asyncDispose]: () => orm.close() };
  const layer = mikroOrmDatabase(orm.em);
  const outbox = createOutbox({ database: layer });
  const place = (text: string): Promise<unknown> =>
    layer.transaction(async (em) => {
      em.persist(em.create(order, { id: 1, note: text }));
      await outbox.enqueue(em, note, text);
    });

  await place("first");
  await expect(place("second")).rejects.toThrow("duplicate key");

  expect(await database.rows("select note from orders")).toEqual([{ note: "first" }]);
  expect(await storedJobs(database)).toEqual([{ payload: '"first"' }]);
});

test("Prisma ends a transaction after timeoutMs, and its job is gone", async () => {
  await using database = await prepared();
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: database.url }) });
  await using _ = { [Symbol.asyncDispose]: () => prisma.$disconnect() };
  const layer = prismaDatabase(prisma, { timeoutMs: 100 });
  const outbox = createOutbox({ database: layer });

  const late = layer.transaction(async (tx) => {
    await outbox.enqueue(tx, note, "late");
    await tx.$queryRawUnsafe("select pg_sleep(0.3)::text");
    await tx.$queryRawUnsafe("select 1");
  });

  await expect(late).rejects.toThrow(/timeout/);
  expect(await storedJobs(database)).toEqual([]);
});
