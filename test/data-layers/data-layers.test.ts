import { afterAll } from "vitest";

import { createTestDatabase } from "../support/index.ts";
import { prepareDatabase } from "./bench.ts";
import { endedTakesNoJob } from "./conformance.ts";
import { conforms } from "./conforms.ts";
import { openDrizzleOnPg, openDrizzleOnPostgresJs } from "./layers/drizzle.ts";
import { openKnex } from "./layers/knex.ts";
import { openKysely } from "./layers/kysely.ts";
import { openMikroOrm } from "./layers/mikro-orm.ts";
import { openPg } from "./layers/pg.ts";
import { openPostgresJs } from "./layers/postgres-js.ts";
import { openPrisma } from "./layers/prisma.ts";
import { openSequelize } from "./layers/sequelize.ts";
import { openTypeOrm } from "./layers/typeorm.ts";

// One for all: its tables are emptied for each case.
const database = await createTestDatabase({ poolSize: 1 });
await prepareDatabase(database.url);
afterAll(() => database[Symbol.asyncDispose]());
const urls = { layer: database.url, direct: database.url };

conforms("pg", urls, openPg);
conforms("postgres.js", urls, openPostgresJs, endedTakesNoJob);
conforms(
  "postgres.js without fetched types",
  urls,
  (url) => openPostgresJs(url, { fetch_types: false }),
  endedTakesNoJob,
);
conforms("Drizzle on pg", urls, openDrizzleOnPg, endedTakesNoJob);
conforms("Drizzle on postgres.js", urls, openDrizzleOnPostgresJs, endedTakesNoJob);
conforms("Kysely with the camel case plugin", urls, openKysely);
conforms("Prisma", urls, openPrisma);
conforms("Knex", urls, openKnex);
conforms("TypeORM", urls, openTypeOrm);
conforms("Sequelize", urls, openSequelize);
conforms("MikroORM", urls, openMikroOrm);
