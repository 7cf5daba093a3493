import { pool } from "./database.ts";

/** What the books say of an attempt when it starts. */
export interface Entry {
  readonly jobId: string;
  readonly type: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly account?: string;
  readonly entry?: number;
}

/** Does the work of an attempt, and notes when it started, when it ended, and whether it succeeded. */
export async function noted<T>(of: Entry, work: () => Promise<T>): Promise<T> {
  const started = await pool.query<{ id: string }>(
    `insert into attempt (job_id, type, tenant, attempt, worker_pid, account, entry)
     values ($1, $2, $3, $4, $5, $6, $7)
     returning id`,
    [of.jobId, of.type, of.tenant, of.attempt, process.pid, of.account, of.entry],
  );
  const end = async (succeeded: boolean): Promise<void> => {
    await pool.query(
      "update attempt set ended_at = clock_timestamp(), succeeded = $2 where id = $1",
      [started.rows[0]?.id, succeeded],
    );
  };
  try {
    const result = await work();
    await end(true);
    return result;
  } catch (error) {
    await end(false);
    throw error;
  }
}
