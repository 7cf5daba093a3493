import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { newJobId, silentLogger } from "@waybill/core";
import { type Database, pgDatabase } from "@waybill/postgres";
import { applyTopology, createBrokerConnection, topologyOf } from "@waybill/rabbitmq";
import { createWorker, type Worker, type WorkerOptions } from "@waybill/worker";
import type { PoolClient } from "pg";
import {
  createPool,
  createMigratedDatabase,
  createTestVhost,
  startProcess,
  type TestDatabase,
  type TestProcess,
  type TestVhost,
} from "../../support/index.ts";
import { testLogger } from "./app-parts.ts";
import { type Courier, createCourier } from "./courier.ts";

export { testLogger, untilAborted, writeEffect } from "./app-parts.ts";

/** A worker that runs. */
export interface RunningWorker extends AsyncDisposable {
  readonly worker: Worker<PoolClient>;
  /** Stops it and waits for its end. */
  stop(): Promise<void>;
}

/** Options of {@link App.startWorker}: everything has a default that fits tests. */
export type StartWorkerOptions = Partial<Omit<WorkerOptions<PoolClient>, "broker">> & {
  readonly brokerUrl?: string;
  readonly topology?: "assert" | "check" | "off";
  readonly failpoint?: (name: string) => void | Promise<void>;
};

/** A database with Waybill's schema and a ledger, a virtual host, and a courier between them. */
export interface App extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly vhost: TestVhost;
  readonly courier: Courier;
  /** The application's data layer. */
  readonly dataLayer: Database<PoolClient>;
  startWorker(
    register: (worker: Worker<PoolClient>) => void,
    options?: StartWorkerOptions,
  ): Promise<RunningWorker>;
  /**
   * Starts a worker as a process of its own; resolves when it consumes.
   *
   * @param program what it runs; worker-process.ts where it is left out
   */
  startWorkerProcess(env?: Readonly<Record<string, string>>, program?: URL): Promise<TestProcess>;
  /** Starts a relay as a process of its own; resolves when it runs. */
  startRelayProcess(env?: Readonly<Record<string, string>>): Promise<TestProcess>;
  /** Writes a job as an application does, through waybill.enqueue; resolves to its id. */
  enqueue(type: string, payload: unknown, more?: Record<string, unknown>): Promise<string>;
  /** Publishes a job straight to its queue, without an outbox row; resolves to its id. */
  send(type: string, payload: unknown, more?: Record<string, unknown>): Promise<string>;
  inbox(id: string): Promise<InboxEntry | undefined>;
  /** Effects in the ledger, which has no unique key: doubles can be counted. */
  effects(id?: string): Promise<number>;
}

/** A row of the inbox. */
export interface InboxEntry {
  readonly id: string;
  readonly queue: string;
  readonly state: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly dispatch: number;
  readonly deaths: number;
  readonly token: string;
  readonly owner: string | null;
}

/** Declares queues, so that messages can be sent before the first worker starts. */
async function declare(vhost: TestVhost, queues: readonly string[]): Promise<void> {
  await using connection = createBrokerConnection({
    url: vhost.url,
    name: "test",
    logger: silentLogger,
  });
  await connection.ready();
  const topology = topologyOf({ prefix: vhost.prefix, queues });
  await applyTopology(connection, topology, "assert");
}

/** Makes an app; the queue of its jobs is "work", unless others are named. */
export async function startApp(
  options: {
    readonly serverUrl?: string;
    readonly rabbitmqUrl?: string;
    readonly managementUrl?: string | undefined;
    readonly queues?: readonly string[];
  } = {},
): Promise<App> {
  const stack = new AsyncDisposableStack();
  const vhost = stack.use(
    await createTestVhost({
      rabbitmqUrl: options.rabbitmqUrl,
      managementUrl: options.managementUrl,
    }),
  );
  const database = stack.use(await createMigratedDatabase({ serverUrl: options.serverUrl }));
  await database.pool.query(
    "create table effect (job_id uuid not null, attempt integer not null, at timestamptz not null default clock_timestamp())",
  );
  const pool = createPool(database.url, 60);
  // A failed test may leave a handler with its connection behind; dropping the database ends both.
  stack.defer(() => Promise.race([pool.end(), delay(1_000)]));
  const dataLayer = pgDatabase<PoolClient>(pool);
  await declare(vhost, options.queues ?? ["work"]);
  const courier = stack.use(await createCourier(database, vhost.url, vhost.prefix));
  const workers = stack.use(new AsyncDisposableStack());

  return {
    database,
    vhost,
    courier,
    dataLayer,
    async startWorker(register, more = {}) {
      const { brokerUrl, topology, failpoint, ...rest } = more;
      const worker = createWorker<PoolClient>(
        {
          database: dataLayer,
          databaseUrl: database.url,
          broker: {
            url: brokerUrl ?? vhost.url,
            prefix: vhost.prefix,
            topology: topology ?? "assert",
          },
          queues: { work: { concurrency: 10 } },
          logger: testLogger,
          name: `test-${randomUUID().slice(0, 8)}`,
          graceMs: 5_000,
          ...rest,
        },
        failpoint === undefined ? {} : { failpoint },
      );
      register(worker);
      const stop = new AbortController();
      const finished = worker.run({ signal: stop.signal });
      finished.catch(() => undefined);
      const running: RunningWorker = {
        worker,
        async stop() {
          stop.abort();
          await finished;
        },
        async [Symbol.asyncDispose]() {
          stop.abort();
          await finished.catch(() => undefined);
        },
      };
      workers.use(running);
      const consuming = (): boolean => {
        const { queues } = worker.status();
        const isReady = queues.map(
          ({ consumer, reason }) => consumer === "consuming" || reason === "queue paused",
        );
        return isReady.length > 0 && isReady.every(Boolean);
      };
      while (!consuming()) {
        if (worker.status().state === "stopped") await finished;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return running;
    },
    async startWorkerProcess(env = {}, program = new URL("worker-process.ts", import.meta.url)) {
      const child = workers.use(
        await startProcess(program, [], {
          DATABASE_URL: database.url,
          BROKER_URL: vhost.url,
          PREFIX: vhost.prefix,
          WAYBILL_TEST_LOG: process.env["WAYBILL_TEST_LOG"],
          ...env,
        }),
      );
      await child.waitForLine("started");
      return child;
    },
    async startRelayProcess(env = {}) {
      const settings = {
        databaseUrl: database.url,
        broker: { url: vhost.url, prefix: vhost.prefix },
        idlePollMs: 100,
      };
      const program = new URL("../../support/relay-process.ts", import.meta.url);
      const child = workers.use(await startProcess(program, [JSON.stringify(settings)], env));
      await child.waitForLine("ready");
      return child;
    },
    async enqueue(type, payload, extra = {}) {
      const [row] = await database.rows<{ id: string }>(
        "select id from waybill.enqueue($1::jsonb)",
        [JSON.stringify([{ type, queue: "work", payload, ...extra }])],
      );
      if (row === undefined) throw new Error("enqueue gave no row");
      return row.id;
    },
    async send(type, payload, extra = {}) {
      const id = newJobId();
      await courier.dispatch({
        id,
        type,
        queue: "work",
        payload: JSON.stringify(payload),
        ...extra,
      });
      return typeof extra["id"] === "string" ? extra["id"] : id;
    },
    async inbox(id) {
      const [row] = await database.rows<InboxEntry & Record<string, unknown>>(
        "select * from waybill.inbox where id = $1",
        [id],
      );
      return row;
    },
    async effects(id) {
      const [row] = await database.rows<{ count: string }>(
        "select count(*) from effect where $1::uuid is null or job_id = $1",
        [id ?? null],
      );
      return Number(row?.count ?? 0);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
