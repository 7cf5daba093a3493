/** Where a run takes place: servers of its own, and links to them that can be broken. */

import { randomBytes } from "node:crypto";
import { Pool } from "pg";
import { z } from "zod";
import { topologyNames } from "@waybill/core";
import {
  type PrivatePostgres,
  type PrivateRabbitmq,
  startPrivatePostgres,
  startPrivateRabbitmq,
} from "../../scripts/services/index.ts";
import { type Ground, prepareGround } from "../../scripts/stage/ground.ts";
import { type ManagementApi, managementApi } from "../support/management-api.ts";
import { type FaultProxy, startProxy } from "../support/proxy.ts";
import { queues, subscriptions } from "./jobs.ts";

/** Links, by who is linked to what. */
export const wayNames = [
  "producers to database",
  "relays to database",
  "workers to database",
  "relays to broker",
  "workers to broker",
] as const;

/** Name of a link. */
export type WayName = (typeof wayNames)[number];

/** See the head of the file. */
export interface Field extends AsyncDisposable {
  readonly postgres: PrivatePostgres;
  readonly rabbitmq: PrivateRabbitmq;
  /** The database with Waybill's schema and the ledger; its URLs lead straight to the servers. */
  readonly ground: Ground;
  /** A superuser's connections to the same database. */
  readonly admin: Pool;
  readonly management: ManagementApi;
  readonly ways: Readonly<Record<WayName, FaultProxy>>;
  /** Is in every payload, header and password, and must be nowhere else. */
  readonly secret: string;
}

/** Sessions of the ledger's own, which no fault ends and no check counts. */
export const ledgerName = "chaos-ledger";
/** Who the processes are at the database and the broker. */
export const userName = "chaos";

async function startServers(undo: AsyncDisposableStack) {
  const [postgres, rabbitmq] = await Promise.allSettled([
    startPrivatePostgres(),
    startPrivateRabbitmq(),
  ]);
  if (postgres.status === "fulfilled") undo.use(postgres.value);
  if (rabbitmq.status === "fulfilled") undo.use(rabbitmq.value);
  if (postgres.status === "rejected") throw postgres.reason;
  if (rabbitmq.status === "rejected") throw rabbitmq.reason;
  return { postgres: postgres.value, rabbitmq: rabbitmq.value };
}

/** The URL with the user of the processes. */
function asUser(text: string, secret: string): URL {
  const url = new URL(text);
  url.username = userName;
  url.password = secret;
  return url;
}

function poolAt(url: string): Pool {
  const pool = new Pool({ connectionString: url, max: 3 });
  pool.on("error", () => undefined);
  return pool;
}

/** Starts the servers and the links, and makes users, schema and ledger. */
export async function prepareField(): Promise<Field> {
  await using undo = new AsyncDisposableStack();
  const secret = `canary${randomBytes(12).toString("hex")}`;
  const { postgres, rabbitmq } = await startServers(undo);

  const root = poolAt(postgres.url);
  await root.query(`create role ${userName} login createdb password '${secret}'`);
  await root.end();
  const management = managementApi(rabbitmq.managementUrl, rabbitmq.url);
  await management.request("PUT", `/api/users/${userName}`, { password: secret, tags: "" });
  await management.request("PUT", `/api/permissions/%2F/${userName}`, {
    configure: ".*",
    write: ".*",
    read: ".*",
  });

  const databaseUrl = asUser(postgres.url, secret);
  databaseUrl.searchParams.set("application_name", ledgerName);
  const ground = await prepareGround(
    {
      databaseUrl: databaseUrl.href,
      rabbitmqUrl: asUser(rabbitmq.url, secret).href,
      managementUrl: rabbitmq.managementUrl,
      source: "local",
      why: "servers of this run",
      postgres,
      rabbitmq,
      stop: async () => undefined,
      [Symbol.asyncDispose]: async () => undefined,
    },
    {
      name: "chaos",
      queues: Object.keys(queues),
      shownQueues: [],
      tables: [new URL("ledger.sql", import.meta.url)],
    },
  );
  // The servers go with all that is on them.
  undo.defer(() => ground.pool.end());
  const adminUrl = new URL(postgres.url);
  adminUrl.pathname = new URL(ground.databaseUrl).pathname;
  adminUrl.searchParams.set("application_name", ledgerName);
  const admin = poolAt(adminUrl.href);
  undo.defer(() => admin.end());

  const way = async (url: string): Promise<FaultProxy> => undo.use(await startProxy(url));
  const ways: Record<WayName, FaultProxy> = {
    "producers to database": await way(ground.databaseUrl),
    "relays to database": await way(ground.databaseUrl),
    "workers to database": await way(ground.databaseUrl),
    "relays to broker": await way(ground.rabbitmqUrl),
    "workers to broker": await way(ground.rabbitmqUrl),
  };
  const owned = undo.move();
  return {
    postgres,
    rabbitmq,
    ground,
    admin,
    management,
    ways,
    secret,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const bindings = z.array(z.object({ destination: z.string() }));

/** Whether both subscriptions get the events that are published from now on. */
export async function isSubscribed({ management }: Field): Promise<boolean> {
  const { eventsExchange, ...names } = topologyNames("waybill");
  // Nobody has declared the exchange yet, or the answer is that it has no bindings.
  const listed = await management
    .request("GET", `/api/exchanges/%2F/${eventsExchange}/bindings/source`)
    .catch(() => []);
  const bound = bindings.parse(listed).map(({ destination }) => destination);
  return subscriptions.every((name) => bound.includes(names.queueName(name)));
}
