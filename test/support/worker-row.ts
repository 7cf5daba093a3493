import { randomUUID } from "node:crypto";
import type { TestDatabase } from "./database-server.ts";

/**
 * Writes a worker's row as its presence leaves it, for tests that need no process behind it.
 *
 * @param more further columns, or other values
 * @returns its boot id
 */
export async function addWorker(
  database: TestDatabase,
  name: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const id = randomUUID();
  const row = {
    id,
    name,
    host: "host-1",
    pid: 42,
    version: "1.2.3",
    queues: ["emails"],
    lease_until: new Date(Date.now() + 600_000),
    ...more,
  };
  const columns = Object.keys(row);
  await database.rows(
    `insert into waybill.worker (${columns.join(", ")}) values (${columns.map((_, n) => `$${n + 1}`).join(", ")})`,
    Object.values(row),
  );
  return id;
}
