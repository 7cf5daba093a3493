import type { Pool, PoolClient } from "pg";
import { until } from "../../../../scripts/stage/until.ts";

/** Places where an export waits; see gates.sql. Disposing opens what is shut. */
export interface Gates extends AsyncDisposable {
  /** Resolves when an export waits at the first one that is shut. */
  reached(limits: { readonly deadlineMs: number; readonly signal: AbortSignal }): Promise<void>;
  /** Opens the first one that is shut. */
  open(): Promise<void>;
}

/** Makes gates that are shut, one behind each of these numbers of rows, ascending. */
export async function shutGates(pool: Pool, places: readonly number[]): Promise<Gates> {
  // A session of their own, so that a wait for them is told from all others.
  const session = await pool.connect();
  try {
    const shut: number[] = [];
    for (const rows of places) shut.push(await shutGate(session, rows));
    return gatesOf(session, shut);
  } catch (error) {
    session.release(true);
    throw error;
  }
}

async function shutGate(session: PoolClient, rows: number): Promise<number> {
  const made = await session.query<{ number: number }>(
    "insert into gate (number, rows) select count(*) + 1, $1 from gate returning number",
    [rows],
  );
  const [gate] = made.rows;
  if (gate === undefined) throw new Error("The gate was not made.");
  await session.query("select pg_advisory_lock(30, $1)", [gate.number]);
  return gate.number;
}

function gatesOf(session: PoolClient, shut: number[]): Gates {
  return {
    async reached(limits) {
      await until(
        "the export to come to the next gate",
        async () => {
          const found = await session.query(
            `select
             from pg_catalog.pg_stat_activity as a
             where a.datname = current_database()
               and a.wait_event = 'advisory'
               and pg_backend_pid() = any (pg_catalog.pg_blocking_pids(a.pid))`,
          );
          return found.rows.length > 0 ? true : undefined;
        },
        limits,
      );
    },
    async open() {
      await session.query("select pg_advisory_unlock(30, $1)", [shut.shift()]);
    },
    // Its locks go with the session.
    [Symbol.asyncDispose]: async () => session.release(true),
  };
}
