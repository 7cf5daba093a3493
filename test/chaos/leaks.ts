/** What must be gone once all processes have stopped: sessions, locks, connections. */

import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Finding } from "./books.ts";
import { type Field, ledgerName, userName } from "./field.ts";

const connections = z.array(z.unknown());
/** The broker's list of connections is some seconds old. */
const patienceMs = 20_000;

interface Left {
  readonly sessions: number;
  readonly locks: number;
  readonly connections: number;
}

async function leftOf({ admin, management }: Field): Promise<Left> {
  const { rows } = await admin.query<{ sessions: number; locks: number }>(
    `select
       (select count(*)::integer from pg_stat_activity where usename = $1 and application_name <> $2) as sessions,
       (select count(*)::integer from pg_locks where locktype = 'advisory') as locks`,
    [userName, ledgerName],
  );
  const open = connections.parse(await management.request("GET", "/api/connections"));
  const { sessions = 0, locks = 0 } = rows[0] ?? {};
  return { sessions, locks, connections: open.length };
}

/** What is left after a while; nothing where all is well. */
export async function findLeaks(field: Field): Promise<readonly Finding[]> {
  const untilMs = performance.now() + patienceMs;
  let left = await leftOf(field);
  while (Object.values(left).some((count) => count > 0) && performance.now() < untilMs) {
    await delay(250);
    left = await leftOf(field);
  }
  return Object.entries(left).flatMap(([name, count]) =>
    count > 0
      ? [{ what: `${name} of stopped processes`, fault: "broken" as const, count, jobs: [] }]
      : [],
  );
}
