import { createJobs, createOutbox, pgDatabase, type Outbox } from "@waybill/postgres";
import { createRelay, type Relay, type RelayInternals, type RelayOptions } from "@waybill/relay";
import { createWorker, type Worker, type WorkerOptions } from "@waybill/worker";
import { silentLogger } from "@waybill/core";
import type { PoolClient } from "pg";
import type { TestDatabase } from "./database-server.ts";
import { createMigratedDatabase, type TestDatabaseOptions } from "./test-database.ts";
import { createTestVhost, type TestVhost, type TestVhostOptions } from "./test-vhost.ts";

/** The whole line for a test: a migrated database, a virtual host, an outbox, relays and workers. */
export interface Line extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly vhost: TestVhost;
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: ReturnType<typeof createJobs>;
  /** Runs `work` in a transaction of the application. */
  transaction<T>(work: (tx: PoolClient) => Promise<T>): Promise<T>;
  /** Starts a relay; it stops at the end of the test, or by `stop`. */
  startRelay(options?: Partial<RelayOptions>, internals?: RelayInternals): Running<Relay>;
  /** Makes a worker for the queues, lets `register` give it handlers, and starts it. */
  startWorker(
    queues: readonly string[],
    register: (worker: Worker<PoolClient>) => void,
    options?: Partial<WorkerOptions<PoolClient>>,
  ): Running<Worker<PoolClient>>;
}

/** Something that runs until it is stopped. */
export interface Running<T> {
  readonly it: T;
  stop(): Promise<void>;
}

/** Options of {@link startLine}: servers other than those of the test run. */
export interface LineOptions {
  readonly database?: TestDatabaseOptions | undefined;
  readonly vhost?: TestVhostOptions | undefined;
}

/** Starts the line without relay and worker. */
export async function startLine(options: LineOptions = {}): Promise<Line> {
  // Connections for two subscriptions of the default concurrency, and the test.
  const database = await createMigratedDatabase({ poolSize: 30, ...options.database });
  const vhost = await createTestVhost(options.vhost);
  const appDatabase = pgDatabase<PoolClient>(database.pool);
  const broker = { url: vhost.url, prefix: vhost.prefix };
  const running: Running<unknown>[] = [];

  function run<T extends { run(options: { signal: AbortSignal }): Promise<void> }>(
    it: T,
  ): Running<T> {
    const controller = new AbortController();
    const ended = it.run({ signal: controller.signal });
    // A failure shows where the test stops it; until then it must not end the process.
    ended.catch(() => undefined);
    const handle = {
      it,
      async stop() {
        controller.abort();
        await ended;
      },
    };
    running.push(handle);
    return handle;
  }

  return {
    database,
    vhost,
    outbox: createOutbox({ database: appDatabase }),
    jobs: createJobs({ database: appDatabase }),
    transaction: (work) => appDatabase.transaction(work),
    startRelay: (more, internals) =>
      run(
        createRelay(
          { databaseUrl: database.url, broker, logger: silentLogger, ...more },
          internals,
        ),
      ),
    startWorker(queues, register, more) {
      const worker = createWorker<PoolClient>({
        database: appDatabase,
        databaseUrl: database.url,
        broker,
        queues: Object.fromEntries(queues.map((queue) => [queue, { concurrency: 5 }])),
        logger: silentLogger,
        ...more,
      });
      register(worker);
      return run(worker);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(running.map((handle) => handle.stop()));
      await vhost[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    },
  };
}
