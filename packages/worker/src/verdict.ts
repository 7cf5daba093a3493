import { isTerminal } from "@waybill/core";
import type { ClaimedRow } from "@waybill/postgres";

/**
 * What to do with a delivery that was claimed.
 *
 * - `run`: the job is this worker's, with a new token
 * - `held`: another worker runs it; park the copy, a copy is never dropped while its job is unfinished
 * - `stale`: copy of an attempt that has ended; its successor waits in the timers or is on its way
 * - `cancelled`: this claim ended the job, because a cancel was asked for or its time was over
 * - `duplicate`: the job has ended before
 */
export type Verdict = "run" | "held" | "stale" | "cancelled" | "duplicate";

/**
 * Reads the verdict off the row as the claim left it. The claim has decided and written it; here
 * is nothing left to decide, so nothing can change between the look and the act.
 *
 * @param me boot id of this worker
 */
export function verdictOf(row: Pick<ClaimedRow, "state" | "owner" | "ended">, me: string): Verdict {
  if (row.state === "running") return row.owner === me ? "run" : "held";
  if (!isTerminal(row.state)) return "stale";
  return row.state === "cancelled" && row.ended ? "cancelled" : "duplicate";
}

/** Crashes that make a job a suspect, which runs alone; see JobStarts. */
export const suspectCrashes = 2;
