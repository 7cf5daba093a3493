/** What the tests of the relay share: a migrated database, a virtual host, relays and a consumer. */

import { silentLogger } from "@waybill/core";
import { applyTopology, type BrokerConnection, topologyOf } from "@waybill/rabbitmq";
import { createRelay, type Relay, type RelayInternals, type RelayOptions } from "@waybill/relay";
import type { ClientBase, Pool } from "pg";

import { connected, onChannel } from "../rabbitmq/support.ts";
import {
  createMigratedDatabase,
  createTestVhost,
  startProcess,
  type TestDatabase,
  type TestDatabaseOptions,
  type TestProcess,
  type TestVhost,
  type TestVhostOptions,
} from "../support/index.ts";

/** A message that was consumed. */
export interface Consumed {
  readonly id: string;
  readonly type: string;
  readonly body: string;
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** Everything that came to a queue, acked at once. */
export interface Collected {
  readonly messages: readonly Consumed[];
  /** Ids, each once, in the order of their first message. */
  readonly ids: readonly string[];
}

/** A relay that runs until it is stopped. */
export interface RunningRelay {
  readonly it: Relay;
  /** Settles when it has ended. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

/** A database, a virtual host, and what uses them. */
export interface House extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly vhost: TestVhost;
  readonly broker: BrokerConnection;
  /** Options of a relay here; small pauses, so that tests are quick. */
  relayOptions(options?: Partial<RelayOptions>): RelayOptions;
  startRelay(options?: Partial<RelayOptions>, internals?: RelayInternals): RunningRelay;
  /** A relay as a process of its own; says "ready" when it runs. */
  spawnRelay(settings?: SpawnSettings): Promise<TestProcess>;
  /** Declares queues. */
  declare(...queues: string[]): Promise<void>;
  /** Consumes a queue, declared before. */
  collect(queue: string): Promise<Collected>;
}

/** Settings of a relay as a process. */
export interface SpawnSettings {
  readonly name?: string | undefined;
  readonly options?: Partial<RelayOptions> | undefined;
  /** Failpoint at which the process kills itself, the how-many-eth time. */
  readonly killAt?: { readonly point: string; readonly count: number } | undefined;
}

/** Options of {@link startHouse}. */
export interface HouseOptions {
  readonly database?: TestDatabaseOptions | undefined;
  readonly vhost?: TestVhostOptions | undefined;
}

const asJob = (job: Record<string, unknown>): Record<string, unknown> => ({
  type: "t",
  ...("body" in job ? {} : { payload: {} }),
  ...("kind" in job ? {} : { queue: "email" }),
  ...job,
});

/** Enqueues jobs, each an object as waybill.enqueue takes it; their ids. */
export async function enqueue(
  client: ClientBase | Pool,
  jobs: readonly Record<string, unknown>[],
): Promise<readonly string[]> {
  const { rows } = await client.query<{ id: string }>({
    text: "select id from waybill.enqueue($1::jsonb)",
    values: [JSON.stringify(jobs.map(asJob))],
  });
  return rows.map(({ id }) => id);
}

/** Runs work in a transaction on a connection of the pool. */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

/** A transaction that is open until it is committed; rolled back at the end of the test. */
export interface OpenTransaction extends AsyncDisposable {
  readonly client: ClientBase;
  commit(): Promise<void>;
}

/** Begins a transaction on a connection of the pool. */
export async function openTransaction(pool: Pool): Promise<OpenTransaction> {
  const client = await pool.connect();
  await client.query("begin");
  let open = true;
  const end = async (statement: string): Promise<void> => {
    if (!open) return;
    open = false;
    await client.query(statement);
    client.release();
  };
  return {
    client,
    commit: () => end("commit"),
    [Symbol.asyncDispose]: () => end("rollback"),
  };
}

/** Starts the house without a relay. */
export async function startHouse(options: HouseOptions = {}): Promise<House> {
  const database = await createMigratedDatabase(options.database);
  const vhost = await createTestVhost(options.vhost);
  const broker = await connected(vhost.url);
  const relays: RunningRelay[] = [];
  const processes: TestProcess[] = [];

  const house: House = {
    database,
    vhost,
    broker,
    relayOptions: (more) => ({
      databaseUrl: database.url,
      broker: { url: vhost.url, prefix: vhost.prefix },
      logger: silentLogger,
      idlePollMs: 50,
      leaseMs: 1_000,
      ...more,
    }),
    startRelay(more, internals) {
      const controller = new AbortController();
      const it = createRelay(house.relayOptions(more), internals);
      const ended = it.run({ signal: controller.signal });
      // A failure shows where the test stops it.
      ended.catch(() => undefined);
      const relay = {
        it,
        ended,
        async stop() {
          controller.abort();
          await ended;
        },
      };
      relays.push(relay);
      return relay;
    },
    async spawnRelay({ name = "spawned", options: more, killAt } = {}) {
      const { logger: _, ...plain } = house.relayOptions({ name, ...more });
      const process = await startProcess(new URL("../support/relay-process.ts", import.meta.url), [
        JSON.stringify(plain),
        JSON.stringify(killAt === undefined ? null : { ...killAt, signal: "SIGKILL" }),
      ]);
      processes.push(process);
      await process.waitForLine("ready");
      return process;
    },
    async declare(...queues) {
      await applyTopology(broker, topologyOf({ prefix: vhost.prefix, queues }), "assert");
    },
    async collect(queue) {
      const messages: Consumed[] = [];
      const channel = await broker.openChannel();
      await channel.raw.prefetch(500);
      await channel.raw.consume(`${vhost.prefix}.${queue}`, (message) => {
        if (message === null) return;
        messages.push({
          id: String(message.properties.messageId),
          type: String(message.properties.type),
          body: message.content.toString(),
          routingKey: message.fields.routingKey,
          headers: message.properties.headers ?? {},
        });
        channel.raw.ack(message);
      });
      return {
        messages,
        get ids() {
          return [...new Set(messages.map(({ id }) => id))];
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const process of processes) await process[Symbol.asyncDispose]();
      await Promise.allSettled(relays.map((relay) => relay.stop()));
      await broker.close();
      await vhost[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    },
  };
  return house;
}

/** Messages in a queue, ready ones only. */
export async function depth(house: House, queue: string): Promise<number> {
  const { messageCount } = await onChannel(house.broker, (channel) =>
    channel.checkQueue(`${house.vhost.prefix}.${queue}`),
  );
  return messageCount;
}

/** True once every row of the outbox counts as published. */
export async function isDrained(house: House): Promise<boolean> {
  const [row] = await house.database.rows<{ left: string }>(
    `select count(*) as left from waybill.outbox as o, waybill.relay as r
     where not coalesce(pg_visible_in_snapshot(o.tx, r.snapshot), false)`,
  );
  return row?.left === "0";
}
