/** Which connections hear of watched jobs: postgres.js, and pg through PgBouncer. */

import { defineJob, type Logger } from "@waybill/core";
import {
  createJobs,
  createOutbox,
  type JobListener,
  migrate,
  pgDatabase,
  pgListener,
  postgresJsListener,
} from "@waybill/postgres";
import { Client } from "pg";
import postgres from "postgres";
import { expect, test } from "vitest";
import { z } from "zod";

import { createTestDatabase, eventually, startProxy, type TestDatabase } from "../support/index.ts";
import { startPgBouncer } from "./pgbouncer.ts";

const note = defineJob({ name: "note", queue: "notes", payload: z.unknown() });
const listening = "listening for changes of watched jobs";
const deaf = "notifications do not reach this process, polling";

/** A watched job, to be cancelled in the end, and what was said meanwhile. */
async function watchOne(
  database: TestDatabase,
  listener: JobListener,
): Promise<{ readonly said: readonly string[]; readonly end: () => Promise<readonly string[]> }> {
  await migrate(database.pool);
  const said: string[] = [];
  const say = (_fields: object, message: string): void => void said.push(message);
  const logger: Logger = { child: () => logger, debug: say, info: say, warn: say, error: say };
  const layer = pgDatabase(database.pool);
  const jobs = createJobs({ database: layer, listener, logger });
  const { jobId } = await layer.transaction((tx) =>
    createOutbox({ database: layer }).enqueue(tx, note, 1),
  );
  const states: string[] = [];
  const loop = (async () => {
    for await (const { state } of jobs.watch(jobId)) states.push(state);
  })();
  await eventually(() => states.length === 1);
  return {
    said,
    async end() {
      await jobs.cancel(jobId);
      await loop;
      return states;
    },
  };
}

test("postgres.js hears of watched jobs, and again after its connection was lost", async () => {
  await using database = await createTestDatabase();
  await using proxy = await startProxy(database.url);
  const sql = postgres(proxy.url(database.url), { max: 1 });
  const { said, end } = await watchOne(database, postgresJsListener(sql));
  await eventually(() => said.filter((one) => one === listening).length === 1);

  proxy.cut();

  await eventually(() => said.filter((one) => one === listening).length === 2);
  expect(await end()).toEqual(["queued", "cancelled"]);
  await sql.end({ timeout: 5 });
});

test("postgres.js that cannot connect at first hears later", async () => {
  await using database = await createTestDatabase();
  await using proxy = await startProxy(database.url);
  const sql = postgres(proxy.url(database.url), { max: 1 });
  proxy.refuse();
  const { said, end } = await watchOne(database, postgresJsListener(sql));
  await eventually(() => said.includes("listener for watched jobs lost, polling"));

  proxy.pass();

  await eventually(() => said.includes(listening));
  expect(await end()).toEqual(["queued", "cancelled"]);
  await sql.end({ timeout: 5 });
});

test("a listener behind PgBouncer in transaction mode is found deaf, and watches poll", async () => {
  await using database = await createTestDatabase();
  await using pooler = await startPgBouncer(database.url);
  const listener = pgListener(async () => {
    const client = new Client({ connectionString: pooler.url });
    await client.connect();
    return client;
  });

  const { said, end } = await watchOne(database, listener);

  await eventually(() => said.includes(deaf));
  expect(await end()).toEqual(["queued", "cancelled"]);
});
