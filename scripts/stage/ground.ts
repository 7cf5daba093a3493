import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Client, Pool } from "pg";
import { silentLogger, topologyNames } from "@waybill/core";
import { migrate } from "@waybill/postgres";
import { createBrokerConnection, createManagementClient } from "@waybill/rabbitmq";
import { resolveServices, type Services } from "../services/index.ts";
import { unlessStopped } from "./run-script.ts";
import type { Screen } from "./screen.ts";

/** Where a run takes place: a database of its own, and a virtual host or prefix of its own. */
export interface Ground extends AsyncDisposable {
  readonly databaseUrl: string;
  readonly rabbitmqUrl: string;
  readonly prefix: string;
  readonly pool: Pool;
  /** Pages of the queues in the management UI; none where the broker has no UI. */
  readonly pages: readonly string[];
}

/** What a script needs there. */
export interface GroundPlan {
  /** Word in the names of its database and virtual host: letters, digits, underscores. */
  readonly name: string;
  /** Queues and subscriptions; cleared away at the end where the broker is shared. */
  readonly queues: readonly string[];
  /** Queues whose pages in the management UI are worth a look, by their names at the broker without the prefix. */
  readonly shownQueues: readonly string[];
  /** Files of SQL that make the script's own tables, in their order. */
  readonly tables: readonly URL[];
}

async function administer(databaseUrl: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** A fresh database. */
async function createDatabase(serverUrl: string, name: string): Promise<string> {
  await administer(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

async function createTables(pool: Pool, files: readonly URL[]): Promise<void> {
  await migrate(pool);
  for (const file of files) await pool.query(await readFile(file, "utf8"));
}

interface BrokerGround {
  readonly url: string;
  readonly prefix: string;
  clear(): Promise<void>;
}

/** Names with a prefix of their own on the given broker. */
function sharePrefix(url: string, name: string, queues: readonly string[]): BrokerGround {
  const prefix = name.replaceAll("_", "-");
  return { url, prefix, clear: () => deleteTopology(url, prefix, queues) };
}

/** A virtual host where the management API may make one, else a prefix. */
async function shareBroker(
  services: Services,
  name: string,
  queues: readonly string[],
): Promise<BrokerGround> {
  const url = new URL(services.rabbitmqUrl);
  if (services.managementUrl === undefined) return sharePrefix(url.href, name, queues);
  const management = new URL(services.managementUrl);
  management.username = url.username;
  management.password = url.password;
  const client = createManagementClient({ url: management.href });
  try {
    await client.putVhost(name);
  } catch {
    // Not an administrator.
    return sharePrefix(url.href, name, queues);
  }
  const user = decodeURIComponent(url.username) || "guest";
  await client.putPermissions(name, user, { configure: ".*", write: ".*", read: ".*" });
  url.pathname = `/${name}`;
  return { url: url.href, prefix: "waybill", clear: () => client.deleteVhost(name) };
}

async function deleteTopology(
  url: string,
  prefix: string,
  queues: readonly string[],
): Promise<void> {
  await using connection = createBrokerConnection({
    url,
    name: "waybill (clean up)",
    logger: silentLogger,
  });
  await connection.tryReady();
  const channel = await connection.openChannel();
  const names = topologyNames(prefix);
  for (const queue of queues) {
    for (const name of [names.queueName(queue), names.deadLetterQueueName(queue)]) {
      await channel.call(`delete queue ${name}`, (raw) => raw.deleteQueue(name));
    }
  }
  for (const name of [names.jobsExchange, names.dlxExchange, names.eventsExchange]) {
    await channel.call(`delete exchange ${name}`, (raw) => raw.deleteExchange(name));
  }
}

function pagesOf(
  services: Services,
  broker: BrokerGround,
  shownQueues: readonly string[],
): readonly string[] {
  if (services.managementUrl === undefined) return [];
  const vhost = decodeURIComponent(new URL(broker.url).pathname.slice(1)) || "/";
  const names = topologyNames(broker.prefix);
  return shownQueues.map(
    (queue) =>
      `${services.managementUrl}/#/queues/${encodeURIComponent(vhost)}/${encodeURIComponent(names.queueName(queue))}`,
  );
}

/** The servers of a script, found or started. */
export async function findServices(screen: Screen, signal: AbortSignal): Promise<Services> {
  screen.heading("Services");
  return await unlessStopped(resolveServices({ log: (line) => screen.event(line) }), signal);
}

/** Prepares the ground; disposing clears it. Servers that are ours need no clearing at the broker. */
export async function prepareGround(services: Services, plan: GroundPlan): Promise<Ground> {
  const name = `waybill_${plan.name}_${randomBytes(4).toString("hex")}`;
  await using undo = new AsyncDisposableStack();
  const broker: BrokerGround =
    services.source === "url"
      ? await shareBroker(services, name, plan.queues)
      : { url: services.rabbitmqUrl, prefix: "waybill", clear: async () => undefined };
  undo.defer(() => broker.clear());

  const databaseUrl = await createDatabase(services.databaseUrl, name);
  undo.defer(() =>
    administer(services.databaseUrl, `drop database if exists ${name} with (force)`),
  );
  const pool = new Pool({ connectionString: databaseUrl, max: 12 });
  pool.on("error", () => undefined);
  undo.defer(() => pool.end());
  await createTables(pool, plan.tables);

  const owned = undo.move();
  return {
    databaseUrl,
    rabbitmqUrl: broker.url,
    prefix: broker.prefix,
    pool,
    pages: pagesOf(services, broker, plan.shownQueues),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
