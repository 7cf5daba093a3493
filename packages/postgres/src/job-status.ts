import type { FailureClass, JobState } from "@waybill/core";
import { instant, integer, integerOrNull, type JsonRow, text } from "./json-row.ts";

/** How far a job is, as its handler last reported it. */
export interface JobProgress {
  /** What it is doing, in a few words. */
  readonly stage: string | null;
  /** Units that are done, of `total`. */
  readonly done: number | null;
  readonly total: number | null;
  /** Whole percent, rounded down; null where `total` is not known. */
  readonly percent: number | null;
  readonly reportedAt: Date;
}

/** State, progress and end of a job: what lists and watchers both show. */
export interface JobStatus {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly version: number;
  readonly state: JobState;
  /** Number of the current or last attempt; 0 before the first and after a redrive. */
  readonly attempt: number;
  /** Null before its handler's first report. */
  readonly progress: JobProgress | null;
  /** True where it is `running` and its worker's heartbeat has stopped: another one will take over. */
  readonly stale: boolean;
  /** Null where it is not known any more. */
  readonly enqueuedAt: Date | null;
  /** When it goes on; null where it waits for nothing, or for an operator. */
  readonly nextAt: Date | null;
  /** Why it waits: `delay`, `retry`, `held`, `no_handler`, `unroutable`, `nacked`, `refused`. */
  readonly waitingFor: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly cancelRequestedAt: Date | null;
  /** Who cancelled it, or asked for that last; `waybill` where it expired. */
  readonly cancelledBy: string | null;
  readonly cancelReason: string | null;
  /** Of the last failed attempt. */
  readonly failureClass: FailureClass | null;
  readonly failureMessage: string | null;
  readonly failedAt: Date | null;
}

/** Status of a row of the view job, or of read_watched.sql. */
export function jobStatusOf(row: JsonRow): JobStatus {
  return {
    id: String(row["id"]),
    queue: String(row["queue"]),
    type: String(row["type"]),
    version: integer(row["version"]),
    state: row["state"] as JobState,
    attempt: integer(row["attempt"]),
    progress: jobProgressOf(row),
    stale: row["stale"] === true,
    enqueuedAt: instant(row["enqueued_at"]),
    nextAt: instant(row["next_at"]),
    waitingFor: text(row["waiting_for"]),
    startedAt: instant(row["started_at"]),
    finishedAt: instant(row["finished_at"]),
    cancelRequestedAt: instant(row["cancel_requested_at"]),
    cancelledBy: text(row["cancelled_by"]),
    cancelReason: text(row["cancel_reason"]),
    failureClass: text(row["failure_class"]) as FailureClass | null,
    failureMessage: text(row["failure_message"]),
    failedAt: instant(row["failed_at"]),
  };
}

function jobProgressOf(row: JsonRow): JobProgress | null {
  const reportedAt = instant(row["progress_at"]);
  if (reportedAt === null) return null;
  return {
    stage: text(row["progress_stage"]),
    done: integerOrNull(row["progress_done"]),
    total: integerOrNull(row["progress_total"]),
    percent: integerOrNull(row["progress_percent"]),
    reportedAt,
  };
}
