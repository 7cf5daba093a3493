import { afterAll, expect, test } from "vitest";

import { createTestDatabase } from "../support/index.ts";
import { note, openBench, prepareDatabase } from "./bench.ts";
import { endedTakesNoJob } from "./conformance.ts";
import { conforms } from "./conforms.ts";
import type { OpenLayer } from "./layers/layer.ts";
import { openPg } from "./layers/pg.ts";
import { openPostgresJs } from "./layers/postgres-js.ts";
import { startPgBouncer } from "./pgbouncer.ts";

const database = await createTestDatabase({ poolSize: 1 });
await prepareDatabase(database.url);
const pooler = await startPgBouncer(database.url);
afterAll(async () => {
  await pooler[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});
const urls = { layer: pooler.url, direct: database.url };

const openUnprepared: typeof openPostgresJs = (url) => openPostgresJs(url, { prepare: false });

conforms("pg through PgBouncer", urls, openPg);
conforms("postgres.js through PgBouncer", urls, openUnprepared, endedTakesNoJob);

async function fourClientsShareTwoConnections<Tx>(open: OpenLayer<Tx>): Promise<void> {
  await using bench = await openBench(open, urls.layer, urls.direct);
  const { layer, outbox, rows } = bench;

  await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      layer.database.transaction((tx) => outbox.enqueue(tx, note, n)),
    ),
  );

  expect(await rows("select count(distinct payload)::integer as n from waybill.outbox")).toEqual([
    { n: 200 },
  ]);
  expect(
    await rows(
      `select count(*) <= 2 as shared from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    ),
  ).toEqual([{ shared: true }]);
}

test("clients of pg that share server connections each keep their jobs", async () => {
  await fourClientsShareTwoConnections(openPg);

  expect.assertions(2);
});

test("clients of postgres.js that share server connections each keep their jobs", async () => {
  await fourClientsShareTwoConnections(openUnprepared);

  expect.assertions(2);
});
