import { userInfo } from "node:os";
import type { KeyRing, Logger } from "@waybill/core";
import {
  type Audit,
  createAudit,
  createDependencies,
  createJobs,
  createQueues,
  createWorkers,
  type Database,
  type Dependencies,
  type Jobs,
  type OperatorOptions,
  pgDatabase,
  pgExecutor,
  pgListener,
  type Queues,
  requireSchemaVersion,
  type Workers,
} from "@waybill/postgres";
import { type Client, Pool, type PoolClient } from "pg";
import {
  connectDatabase,
  connectTimeoutMs,
  explainDatabaseError,
  withDatabase,
} from "./database.ts";
import { readKnownQueues } from "./known-topology.ts";

/** Where a command looks and acts. */
export interface StoreSettings {
  readonly databaseUrl: string;
  readonly schema: string;
  /** Keys for the payloads that `jobs edit` writes. */
  readonly encryption?: KeyRing | undefined;
}

/** Transactions on the command's one connection. */
function databaseOn(client: Client): Database<Client> {
  return {
    executor: pgExecutor,
    async transaction(work) {
      await client.query("begin");
      try {
        const result = await work(client);
        await client.query("commit");
        return result;
      } catch (error) {
        await client.query("rollback").catch(() => undefined);
        throw error;
      }
    },
  };
}

/** Who acts, as the audit log names it. */
function actorName(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    // A container's user may have no name.
    return "cli";
  }
}

/** Runs `work` with what the factories of operators' acts take, on one connection. */
async function withOperator<T>(
  { databaseUrl, schema }: StoreSettings,
  work: (options: OperatorOptions<Client>, client: Client) => Promise<T>,
): Promise<T> {
  return await withDatabase(databaseUrl, async (client) => {
    await requireSchemaVersion(client, schema);
    return await work({ database: databaseOn(client), schema, actor: actorName() }, client);
  });
}

/** Runs `work` with the jobs of a schema. */
export async function withJobs<T>(
  settings: StoreSettings,
  work: (jobs: Jobs<Client>) => Promise<T>,
): Promise<T> {
  const { encryption } = settings;
  return await withOperator(settings, (options) => work(createJobs({ ...options, encryption })));
}

/**
 * Runs `work` with the jobs of a schema, to follow some of them: on connections that are made anew
 * where they break, since a watch waits for a database that is away.
 */
export async function withWatchedJobs<T>(
  settings: StoreSettings,
  logger: Logger,
  work: (jobs: Jobs<PoolClient>) => Promise<T>,
): Promise<T> {
  const { databaseUrl, schema } = settings;
  await withDatabase(databaseUrl, (client) => requireSchemaVersion(client, schema));
  const pool = new Pool({
    connectionString: databaseUrl,
    application_name: "waybill",
    connectionTimeoutMillis: connectTimeoutMs,
    max: 2,
  });
  // Without a listener the loss of an idle connection would end the process with a stack trace.
  pool.on("error", () => undefined);
  try {
    return await work(
      createJobs({
        database: pgDatabase(pool),
        schema,
        logger,
        listener: pgListener(async () => (await connectDatabase(databaseUrl)).client),
      }),
    );
  } catch (error) {
    throw explainDatabaseError(error, databaseUrl);
  } finally {
    await pool.end();
  }
}

/** Runs `work` with the workers of a schema. */
export async function withWorkers<T>(
  settings: StoreSettings,
  work: (workers: Workers<Client>) => Promise<T>,
): Promise<T> {
  return await withOperator(settings, (options) => work(createWorkers(options)));
}

/** Runs `work` with the books of a schema. */
export async function withAudit<T>(
  settings: StoreSettings,
  work: (audit: Audit<Client>) => Promise<T>,
): Promise<T> {
  return await withOperator(settings, (options) => work(createAudit(options)));
}

/** Runs `work` with the dependencies of a schema. */
export async function withDependencies<T>(
  settings: StoreSettings,
  work: (dependencies: Dependencies<Client>) => Promise<T>,
): Promise<T> {
  return await withOperator(settings, (options) => work(createDependencies(options)));
}

/** Runs `work` with the queues of a schema, and what tells the names that were heard of. */
export async function withQueues<T>(
  settings: StoreSettings,
  work: (queues: Queues<Client>, knownNames: () => Promise<readonly string[]>) => Promise<T>,
): Promise<T> {
  return await withOperator(settings, async (options, client) => {
    const queues = createQueues(options);
    const knownNames = async (): Promise<readonly string[]> => {
      const governed = (await queues.list()).map(({ name }) => name);
      const seen = await readKnownQueues(client, settings.schema);
      const subscriptions = seen.subscriptions.map(({ subscription }) => subscription);
      return [...new Set([...governed, ...seen.queues, ...subscriptions])].sort();
    };
    return await work(queues, knownNames);
  });
}
