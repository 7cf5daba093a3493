/** Keeps the producers at a pace that reaches the number of jobs in time, and not far ahead of the workers. */

import type { Pool } from "pg";
import { setTimeout as delay } from "node:timers/promises";
import { sizes } from "./cast.ts";

/** What the load should come to. */
export interface Load {
  readonly jobs: number;
  /** When they should be there, in milliseconds since 1970. */
  readonly byMs: number;
}

/** Jobs committed, and deliveries that have not ended. */
export interface Progress {
  readonly committed: number;
  readonly unfinished: number;
}

const lookEveryMs = 1_500;
/** Above so many the producers wait. */
const unfinishedMax = 2_000;
/** Of all producers together, in a second. */
const rates = { least: 12, late: 400 } as const;

/** How far it is; undefined while the database is away. */
export async function progressOf(pool: Pool): Promise<Progress | undefined> {
  try {
    const { rows } = await pool.query<Progress>(
      `select
         count(distinct job_id)::integer as committed,
         (count(*) - (select count(*) from ended))::integer as unfinished
       from business`,
    );
    return rows[0];
  } catch {
    return undefined;
  }
}

function rateOf({ committed, unfinished }: Progress, { jobs, byMs }: Load): number {
  if (unfinished > unfinishedMax) return 0;
  const missing = jobs - committed;
  const leftMs = byMs - Date.now();
  if (leftMs <= 0) return missing > 0 ? rates.late : 0;
  // A bit more than needed: faults hold it up.
  return Math.min(rates.late, Math.max(rates.least, (missing / (leftMs / 1_000)) * 1.2));
}

/** Resolves once all jobs are there, `isOver` says so, and the producers have been told to stop. */
export async function keepPace(
  pool: Pool,
  load: Load,
  isOver: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const progress = await progressOf(pool);
    if (progress !== undefined) {
      const isDone = isOver() && progress.committed >= load.jobs;
      const rate = isDone ? 0 : rateOf(progress, { ...load, byMs: isOver() ? 0 : load.byMs });
      const told = await pool
        .query("update pace set rate = $1", [rate / sizes.producer])
        .catch(() => undefined);
      if (isDone && told !== undefined) return;
    }
    await delay(lookEveryMs, undefined, { signal });
  }
}
