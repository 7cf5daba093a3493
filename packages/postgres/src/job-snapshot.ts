import {
  instant,
  integer,
  jobProgressOf,
  type JobSummary,
  type JsonRow,
  text,
} from "./job-record.ts";
import type { FailureClass, JobState } from "@waybill/core";

/** A job as its watchers see it: state, progress and end. */
export interface JobSnapshot extends Pick<
  JobSummary,
  | "id"
  | "queue"
  | "type"
  | "version"
  | "state"
  | "attempt"
  | "progress"
  | "stale"
  | "enqueuedAt"
  | "nextAt"
  | "waitingFor"
  | "startedAt"
  | "finishedAt"
  | "cancelRequestedAt"
  | "cancelledBy"
  | "cancelReason"
  | "failureClass"
  | "failureMessage"
  | "failedAt"
> {
  /** What the handler gave back, as JSON text; null before the end, and where it gave nothing. */
  readonly result: string | null;
}

/** Snapshot of a row of read_watched.sql. */
export function jobSnapshotOf(row: JsonRow): JobSnapshot {
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
    result: text(row["result"]),
  };
}
