import { type JobStatus, jobStatusOf } from "./job-status.ts";
import { type JsonRow, text } from "./json-row.ts";

/** A job as its watchers see it: state, progress and end. */
export interface JobSnapshot extends JobStatus {
  /** What the handler gave back, as JSON text; null before the end, and where it gave nothing. */
  readonly result: string | null;
}

/** Snapshot of a row of read_watched.sql. */
export const jobSnapshotOf = (row: JsonRow): JobSnapshot => ({
  ...jobStatusOf(row),
  result: text(row["result"]),
});
