import { fileURLToPath } from "node:url";
import {
  createMigratedDatabase,
  createTestVhost,
  type TestDatabase,
  type TestProcess,
  type TestVhost,
} from "../support/index.ts";
import type { Environment } from "./support.ts";

/** Path of a worker module of these tests. */
export const moduleOf = (name: string): string =>
  fileURLToPath(new URL(`modules/${name}`, import.meta.url));

/** A migrated database and a virtual host, for daemons that are processes of their own. */
export interface Place extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly vhost: TestVhost;
  readonly env: Environment;
  /** Enqueues a welcome mail, which the modules emails.ts and slow.ts handle. */
  enqueue(to: unknown): Promise<string>;
  /** Addresses of the mails that were sent, sorted. */
  sent(): Promise<readonly string[]>;
}

/** Makes a place with nothing running in it. */
export async function startPlace(): Promise<Place> {
  const database = await createMigratedDatabase();
  const vhost = await createTestVhost();
  await database.rows("create table sent (email text)");
  return {
    database,
    vhost,
    env: { DATABASE_URL: database.url, RABBITMQ_URL: vhost.url, WAYBILL_PREFIX: vhost.prefix },
    async enqueue(to) {
      const job = { type: "email.welcome", queue: "emails", payload: { to } };
      const [row] = await database.rows<{ id: string }>(
        "select id from waybill.enqueue(($1::text)::jsonb)",
        [JSON.stringify([job])],
      );
      return row?.id ?? "";
    },
    sent: async () =>
      (await database.rows<{ email: string }>("select email from sent order by email")).map(
        ({ email }) => email,
      ),
    async [Symbol.asyncDispose]() {
      await vhost[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    },
  };
}

/** Every line that a daemon writes is one JSON object. */
export function logOf(daemon: TestProcess): Record<string, unknown>[] {
  return daemon.stdout
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
