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
