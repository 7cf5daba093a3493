/**
 * The worker's own connections to PostgreSQL: a small pool for claims and outcomes, and what
 * the heartbeat's thread needs for a session. Handlers never run on them.
 */

import {
  createFlowStore,
  createInboxStore,
  type FlowStore,
  type InboxStore,
  sqlStateOf,
  type Statements,
  statementsFor,
} from "@waybill/postgres";
import type { Logger } from "@waybill/core";
import { Client, type ClientBase, type ClientConfig, Pool } from "pg";

/** Connections of the pool: claims, completions, failures, parking. */
const poolMax = 4;
/** No statement of ours takes longer, in milliseconds, unless the server or the network is ill. */
const statementTimeoutMs = 15_000;
/** Longest wait for a row that a frozen worker's transaction holds, in milliseconds. */
const lockTimeoutMs = 3_000;

/**
 * `down`: the server cannot be reached or refuses; waiting helps. `retry`: lost a race, try again.
 * `data`: this input will never be accepted.
 */
export type DatabaseErrorKind = "down" | "retry" | "data";

/** Sorts an error of the worker's own connections. */
export function databaseErrorKind(error: unknown): DatabaseErrorKind {
  const state = sqlStateOf(error);
  // Lost connections and time-outs of the driver carry no state.
  if (state === undefined) return "down";
  if (["40001", "40P01", "55P03", "57014"].includes(state)) return "retry";
  return ["22", "23"].includes(state.slice(0, 2)) ? "data" : "down";
}

/** Owner of claims of nothing. */
const nobody = "00000000-0000-0000-0000-000000000000";

/** See the head of the file. */
export interface OwnDatabase {
  readonly store: InboxStore;
  /** Settings of queues, and shares of their limits. */
  readonly flow: FlowStore;
  /** The pool itself, for whatever needs a {@link InboxStore} of its own. */
  readonly pool: Pool;
  /** True where a transaction pooler is between: no session locks, no prepared statements. */
  readonly pooled: boolean;
  /** Runs `work` with all its statements in one transaction. */
  transaction<T>(work: (store: InboxStore) => Promise<T>): Promise<T>;
  /** For a connection like these in another thread: nothing but data. */
  readonly sessionConfig: ClientConfig;
  /** All statements for the worker's schema. */
  readonly statements: Statements;
  /** Rejects while the database does not answer, or would refuse the worker's statements. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** Options of {@link openOwnDatabase}. */
export interface OwnDatabaseOptions {
  readonly databaseUrl: string;
  readonly schema: string;
  readonly name: string;
  readonly logger: Logger;
}

// A statement prepared while a partition is empty would keep its sequential scan all day, and the
// costs that these settings add would make PostgreSQL compile each statement.
const plannerSettings = [
  "enable_seqscan=off",
  "enable_hashjoin=off",
  "enable_mergejoin=off",
  "jit=off",
];

function configOf(options: OwnDatabaseOptions, plain: boolean): ClientConfig {
  const config: ClientConfig = {
    connectionString: options.databaseUrl,
    application_name: `waybill-worker ${options.name}`.slice(0, 63),
    connectionTimeoutMillis: 5_000,
    // The server may be gone without a word: then the driver's own clock ends the wait.
    query_timeout: statementTimeoutMs + 2_000,
    keepAlive: true,
  };
  // Poolers refuse to pass on what they do not know.
  if (plain) return config;
  return {
    ...config,
    statement_timeout: statementTimeoutMs,
    lock_timeout: lockTimeoutMs,
    idle_in_transaction_session_timeout: 10_000,
    options: plannerSettings.map((setting) => `-c ${setting}`).join(" "),
  };
}

function isRefusedParameter(error: unknown): boolean {
  return error instanceof Error && /unsupported startup parameter/i.test(error.message);
}

/** The process that the driver was told at the start; not in its types. */
const processOf = (client: Client): unknown =>
  (client as unknown as { readonly processID?: unknown }).processID;

async function connect(config: ClientConfig): Promise<Client> {
  const client = new Client(config);
  // Without a listener the end of a session would end this process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

/** Finds out whether a pooler is between: it refuses our settings, or answers for others. */
async function isPooled(options: OwnDatabaseOptions): Promise<boolean> {
  let client: Client;
  try {
    client = await connect(configOf(options, false));
  } catch (error) {
    if (isRefusedParameter(error)) return true;
    throw error;
  }
  try {
    const { rows } = await client.query<{ pid: number }>({
      text: statementsFor(options.schema).get_backend.text,
    });
    return rows[0]?.pid !== processOf(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Opens the worker's connections.
 *
 * @throws the driver's error if the database cannot be reached
 */
export async function openOwnDatabase(options: OwnDatabaseOptions): Promise<OwnDatabase> {
  const pooled = await isPooled(options);
  const config = configOf(options, pooled);
  const pool = new Pool({ ...config, max: poolMax, idleTimeoutMillis: 60_000 });
  pool.on("error", (err) => options.logger.debug({ err }, "idle database connection lost"));
  // A client that is checked out has no listener of the pool's.
  pool.on("connect", (client) => client.on("error", () => undefined));
  const storeOn = (connection: Pool | ClientBase): InboxStore =>
    createInboxStore(connection, { schema: options.schema, prepare: !pooled });
  const store = storeOn(pool);
  return {
    store,
    flow: createFlowStore(pool, { schema: options.schema, prepare: !pooled }),
    pool,
    pooled,
    sessionConfig: config,
    statements: statementsFor(options.schema),
    async transaction(work) {
      const client = await pool.connect();
      try {
        await client.query("begin");
        const result = await work(storeOn(client));
        await client.query("commit");
        client.release();
        return result;
      } catch (error) {
        // Its state is in doubt, and there is always another one.
        client.release(true);
        throw error;
      }
    },
    async probe() {
      // The real statements, on nothing: a missing right, a missing table and a read-only server
      // show here, and not by taking messages that have to be given back.
      await store.claim(nobody, []);
      await store.complete([]);
      await store.fail([]);
    },
    async close() {
      await pool.end().catch(() => undefined);
    },
  };
}
