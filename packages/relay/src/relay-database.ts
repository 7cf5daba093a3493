/**
 * The relay's own connections. Reading and saving share one, so that a position is never used on
 * another server than the one it came from; the wake-up has one; all else shares a small pool.
 */

import type { Logger } from "@waybill/core";
import { createRelayStore, type RelayStore } from "@waybill/postgres";
import { Client, type ClientConfig, Pool } from "pg";

/** One connection. */
export interface DatabaseSession {
  readonly client: Client;
  readonly store: RelayStore;
  /** Resolves, never rejects, when the connection has ended. */
  readonly ended: Promise<void>;
  /** Ends it within two seconds, whatever the server does. Never rejects. */
  close(): Promise<void>;
}

/** The relay's connections. */
export interface RelayDatabase {
  readonly pool: Pool;
  /** On the pool: the term, timers, parking. */
  readonly store: RelayStore;
  /** True where a transaction pooler is between: no LISTEN, no prepared statements. */
  readonly pooled: boolean;
  /** A connection for short statements. */
  openSession(): Promise<DatabaseSession>;
  /** A connection for statements that may take minutes. */
  openPatientSession(): Promise<DatabaseSession>;
  close(): Promise<void>;
}

/** Options of {@link openRelayDatabase}. */
export interface RelayDatabaseOptions {
  readonly databaseUrl: string;
  readonly schema: string;
  readonly name: string;
  readonly logger: Logger;
}

const statementMs = 8_000;
const patientMs = 600_000;

// A statement prepared while a partition is empty would keep its sequential scan all day; and the
// costs that these settings add would make PostgreSQL compile each statement.
const plannerSettings = [
  "enable_seqscan=off",
  "enable_hashjoin=off",
  "enable_mergejoin=off",
  "jit=off",
];

function configOf(options: RelayDatabaseOptions, plain: boolean, patient: boolean): ClientConfig {
  const limitMs = patient ? patientMs : statementMs;
  const config: ClientConfig = {
    connectionString: options.databaseUrl,
    application_name: `waybill-relay ${options.name}`.slice(0, 63),
    connectionTimeoutMillis: 5_000,
    // The server may be gone without a word: then the driver's own clock ends the wait.
    query_timeout: limitMs + 2_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
  };
  // Poolers refuse to pass on what they do not know.
  if (plain) return config;
  return {
    ...config,
    statement_timeout: limitMs,
    lock_timeout: 5_000,
    idle_in_transaction_session_timeout: 10_000,
    // Upkeep reads whole tables, where a sequential scan is right.
    options: (patient ? ["jit=off"] : plannerSettings).map((text) => `-c ${text}`).join(" "),
  };
}

function isRefusedParameter(error: unknown): boolean {
  return error instanceof Error && /unsupported startup parameter/i.test(error.message);
}

/** Parts of the driver that its types leave out. */
interface DriverParts {
  /** The process that the driver was told at the start. */
  readonly processID?: unknown;
  readonly connection?: { readonly stream?: { destroy(): void } };
}

async function openSession(
  config: ClientConfig,
  schema: string,
  prepare: boolean,
): Promise<DatabaseSession> {
  const client = new Client(config);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  // Without a listener the end of a session would end this process.
  client.on("error", () => end());
  client.on("end", () => end());
  const destroy = (): void => (client as unknown as DriverParts).connection?.stream?.destroy();
  try {
    await client.connect();
  } catch (error) {
    destroy();
    throw error;
  }
  return {
    client,
    store: createRelayStore(client, { schema, prepare }),
    ended,
    async close() {
      const timer = setTimeout(destroy, 2_000);
      const gone = ended.then(() => undefined);
      await Promise.race([client.end().catch(() => undefined), gone]);
      clearTimeout(timer);
      end();
    },
  };
}

/** Finds out whether a pooler is between: it refuses our settings, or answers for others. */
async function isPooled(options: RelayDatabaseOptions): Promise<boolean> {
  let session: DatabaseSession;
  try {
    session = await openSession(configOf(options, false, false), options.schema, false);
  } catch (error) {
    if (isRefusedParameter(error)) return true;
    throw error;
  }
  try {
    const told = (session.client as unknown as DriverParts).processID;
    return (await session.store.backend()) !== told;
  } finally {
    await session.close();
  }
}

/**
 * Opens the relay's connections.
 *
 * @throws the driver's error if the database cannot be reached
 */
export async function openRelayDatabase(options: RelayDatabaseOptions): Promise<RelayDatabase> {
  const { schema, logger } = options;
  const pooled = await isPooled(options);
  const pool = new Pool({
    ...configOf(options, pooled, false),
    max: 6,
    idleTimeoutMillis: 10_000,
  });
  pool.on("error", (err) => logger.debug({ err }, "idle database connection lost"));
  // A client that is checked out has no listener of the pool's.
  pool.on("connect", (client) => client.on("error", () => undefined));
  return {
    pool,
    pooled,
    store: createRelayStore(pool, { schema, prepare: !pooled }),
    openSession: () => openSession(configOf(options, pooled, false), schema, !pooled),
    openPatientSession: () => openSession(configOf(options, pooled, true), schema, false),
    async close() {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, 3_000);
      await Promise.race([pool.end().catch(() => undefined), late]);
      clearTimeout(timer);
    },
  };
}
