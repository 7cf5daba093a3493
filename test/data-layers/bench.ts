/** What every case of the suite works with: one layer, the adapter's outbox and jobs, and an eye of its own. */

import { defineJob } from "@waybill/core";
import { createJobs, createOutbox, type Jobs, migrate, type Outbox } from "@waybill/postgres";
import { Client } from "pg";
import { z } from "zod";

import type { Layer, OpenLayer } from "./layers/layer.ts";

/** A job that takes any JSON. */
export const note = defineJob({ name: "note.write", queue: "notes", payload: z.json() });

/** See {@link openBench}. */
export interface Bench<Tx> extends AsyncDisposable {
  readonly layer: Layer<Tx>;
  readonly outbox: Outbox<Tx>;
  readonly jobs: Jobs<Tx>;
  /** Writes a row of business data in the transaction; a second one of the same id fails. */
  readonly order: (tx: Tx, id: number) => Promise<unknown>;
  /** Rows seen by a connection that has nothing to do with the layer. */
  readonly rows: (sql: string) => Promise<Record<string, unknown>[]>;
  /** Ids of the orders that are committed. */
  readonly orderIds: () => Promise<unknown[]>;
  /** Payloads of the jobs that are committed, in the order of the outbox. */
  readonly payloads: () => Promise<unknown[]>;
}

/** Makes the tables of Waybill and those of the application. */
export async function prepareDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await migrate(client);
    await client.query("create table orders (id integer primary key, note text not null)");
  } finally {
    await client.end();
  }
}

/**
 * Opens a layer on a prepared database and empties the tables.
 *
 * @param layerUrl where the layer connects to
 * @param directUrl where the eye connects to: the same database, without a pooler
 */
export async function openBench<Tx>(
  open: OpenLayer<Tx>,
  layerUrl: string,
  directUrl: string = layerUrl,
): Promise<Bench<Tx>> {
  await using stack = new AsyncDisposableStack();
  const eye = stack.adopt(new Client({ connectionString: directUrl }), (client) => client.end());
  await eye.connect();
  await eye.query("truncate orders, waybill.outbox, waybill.inbox, waybill.timer");
  await eye.query("truncate waybill.idempotency_key");
  const layer = stack.use(await open(layerUrl));
  const rows = async (sql: string): Promise<Record<string, unknown>[]> =>
    (await eye.query<Record<string, unknown>>(sql)).rows;
  const all = stack.move();
  return {
    layer,
    outbox: createOutbox({ database: layer.database }),
    jobs: createJobs({ database: layer.database }),
    order: (tx, id) => layer.run(tx, `insert into orders (id, note) values (${id}, 'it''s new')`),
    rows,
    async orderIds() {
      return (await rows("select id from orders order by id")).map((row) => row["id"]);
    },
    async payloads() {
      const found = await rows("select payload from waybill.outbox order by seq");
      return found.map((row) => JSON.parse(String(row["payload"])) as unknown);
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
