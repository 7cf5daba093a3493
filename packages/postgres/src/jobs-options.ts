import type {
  FailureClass,
  JobDefinition,
  JobState,
  KeyRing,
  Logger,
  OutputOf,
  StandardSchema,
} from "@waybill/core";
import type { JobListener } from "./job-listener.ts";
import type { DeadLetterRecord, JobSummary } from "./job-record.ts";
import type { OperatorActOptions, OperatorOptions } from "./operator.ts";

/** Options of `createJobs`. */
export interface JobsOptions<Tx> extends OperatorOptions<Tx> {
  /**
   * Hears of changes of watched jobs: `pgListener` or `postgresJsListener`. Without one `jobs.watch`
   * and `jobs.result` look at the database twice a second.
   */
  readonly listener?: JobListener | undefined;
  /**
   * Where is said how jobs are watched, and that the database is away; a pino logger fits.
   * @default one that writes nothing
   */
  readonly logger?: Logger | undefined;
  /**
   * Keys, made by `createKeyRing`, of which the first encrypts the payloads that `jobs.edit` writes.
   * Without them an encrypted payload cannot be replaced.
   */
  readonly encryption?: KeyRing | undefined;
}

/** Which job, and in which transaction. */
export interface JobSelector<Tx> {
  /** Queue or subscription; needed only where the deliveries of one event have one id. */
  readonly queue?: string | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** Options of an act on a job. */
export interface ActOptions<Tx> extends JobSelector<Tx>, OperatorActOptions<Tx> {}

/** Options of `jobs.watch`. */
export interface WatchOptions {
  /** Queue or subscription; needed only where the deliveries of one event have one id. */
  readonly queue?: string | undefined;
  /** Ends the watch: the loop throws its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `jobs.result`. */
export interface ResultOptions {
  /** The job's definition: its schema validates the result and types it. */
  readonly job?: JobDefinition | undefined;
  /** Queue or subscription; needed only where the deliveries of one event have one id. */
  readonly queue?: string | undefined;
  /** Ends the wait with its reason. The job goes on. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Longest wait, in milliseconds; then it ends with a `TimeoutError`, and the job goes on.
   * @default no limit
   */
  readonly timeoutMs?: number | undefined;
}

/** What `jobs.result` gives for a definition. */
export type JobResult<J extends JobDefinition> = J["result"] extends StandardSchema
  ? OutputOf<J["result"]>
  : undefined;

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
