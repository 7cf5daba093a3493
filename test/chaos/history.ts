/** Everything that is known of a job, for whoever has to find out what went wrong. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Pool } from "pg";

const tables: readonly (readonly [table: string, id: string, order: string])[] = [
  ["business", "job_id", "1"],
  ["waybill.outbox", "id", "seq"],
  ["waybill.timer", "id", "1"],
  ["waybill.backlog", "id", "1"],
  ["waybill.slot", "id", "1"],
  ["waybill.inbox", "id", "1"],
  ["waybill.failure", "id", "failure_id"],
  ["ended", "job_id", "at"],
  ["effect", "job_id", "attempt"],
];

const linesMax = 40;

/** Lines of the processes' files that name it, each with its file in front. */
function linesOf(directory: string, id: string): readonly string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .flatMap(({ name }) =>
      readFileSync(join(directory, name), "utf8")
        .split("\n")
        .filter((line) => line.includes(id))
        .map((line) => `${name}: ${line.slice(0, 400)}`),
    );
}

/** The job's rows without its payload and headers, and the lines that name it. */
export async function historyOf(
  pool: Pool,
  directory: string,
  id: string,
): Promise<readonly string[]> {
  if (!/^[0-9a-f-]{36}$/.test(id)) return [];
  const rows: string[] = [];
  for (const [table, column, order] of tables) {
    const found = await pool.query<{ row: string }>(
      `select (to_jsonb(t) - 'payload' - 'headers' - 'stack')::text as row from ${table} as t
       where t.${column} = $1 order by ${order}`,
      [id],
    );
    rows.push(...found.rows.map(({ row }) => `${table}: ${row}`));
  }
  const lines = linesOf(directory, id);
  return [...rows, ...lines.slice(0, linesMax), ...(lines.length > linesMax ? ["…"] : [])];
}
