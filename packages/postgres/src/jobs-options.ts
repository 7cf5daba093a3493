import type { FailureClass, JobState } from "@waybill/core";
import type { Database } from "./executor.ts";
import type { DeadLetterRecord, JobSummary } from "./job-record.ts";

/** Options of `createJobs`. */
export interface JobsOptions<Tx> {
  readonly database: Database<Tx>;
  /**
   * Schema that holds Waybill's tables.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /**
   * Who acts, as written to the audit log; at most 255 characters.
   * @default "api"
   */
  readonly actor?: string | undefined;
}

/** Which job, and in which transaction. */
export interface JobSelector<Tx> {
  /** Queue or subscription; needed only where the deliveries of one event have one id. */
  readonly queue?: string | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** Options of an act on a job. */
export interface ActOptions<Tx> extends JobSelector<Tx> {
  /** Written to the audit log; at most 1,000 characters. */
  readonly reason?: string | undefined;
  /** Who acts; the actor of `createJobs` where it is left out. */
  readonly actor?: string | undefined;
}

/** Filters of `jobs.list`. */
export interface JobFilter<Tx> {
  readonly state?: JobState | undefined;
  readonly queue?: string | undefined;
  readonly type?: string | undefined;
  /** Text that occurs in the id, type, correlation id or ordering key, whatever its case. */
  readonly search?: string | undefined;
  /**
   * Jobs of a page; at most 200.
   * @default 50
   */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
  readonly tx?: Tx | undefined;
}

/** Filters of `jobs.listDeadLetters`. */
export interface DeadLetterFilter<Tx> {
  readonly queue?: string | undefined;
  readonly type?: string | undefined;
  readonly failureClass?: FailureClass | undefined;
  readonly fingerprint?: string | undefined;
  /**
   * Dead letters of a page; at most 200.
   * @default 50
   */
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly tx?: Tx | undefined;
}

/** A page of `jobs.list`. */
export interface JobPage {
  readonly jobs: readonly JobSummary[];
  /** Where the next page begins; null on the last one. */
  readonly nextCursor: string | null;
}

/** A page of `jobs.listDeadLetters`. */
export interface DeadLetterPage {
  readonly deadLetters: readonly DeadLetterRecord[];
  readonly nextCursor: string | null;
}

/** Jobs of one state, over all queues and by queue. */
export interface JobCounts {
  readonly total: Readonly<Record<JobState, number>>;
  readonly queues: Readonly<Record<string, Readonly<Record<JobState, number>>>>;
}
