/** Waybill's own processes, as a script starts them. */

import type { Pool } from "pg";
import type { Environment } from "./children.ts";
import type { Ground } from "./ground.ts";
import { until } from "./until.ts";

/** What `npx waybill` runs in a project that has the packages installed. */
export const waybill = new URL("../../packages/cli/src/main.ts", import.meta.url);

/** Tells a process of Waybill's where it works. */
export const placeOf = ({ databaseUrl, rabbitmqUrl, prefix }: Ground): Environment => ({
  DATABASE_URL: databaseUrl,
  RABBITMQ_URL: rabbitmqUrl,
  WAYBILL_PREFIX: prefix,
});

/** Waits until the worker with this process id is there; resolves to its boot id. */
export async function workerOf(pool: Pool, pid: number, signal: AbortSignal): Promise<string> {
  return await until(
    `the worker with process id ${pid} to start`,
    async () => {
      const found = await pool.query<{ id: string }>(
        "select id from waybill.worker where pid = $1 order by started_at desc limit 1",
        [pid],
      );
      return found.rows[0]?.id;
    },
    { deadlineMs: 60_000, signal },
  );
}

/** The term of the relay that is at work; 0 where none is. */
export async function relayTerm(pool: Pool): Promise<number> {
  const found = await pool.query<{ epoch: number }>(
    `select coalesce(max(epoch), 0)::integer as epoch
     from waybill.relay where lease_until > clock_timestamp()`,
  );
  return found.rows[0]?.epoch ?? 0;
}

/** Waits until a relay holds a term after `last`. */
export async function relayAfter(pool: Pool, last: number, signal: AbortSignal): Promise<void> {
  await until(
    "a relay to take the term",
    async () => ((await relayTerm(pool)) > last ? true : undefined),
    { deadlineMs: 60_000, intervalMs: 20, signal },
  );
}
