/**
 * The catalogue of errors: one base class, one string code per cause. docs/reference/errors.md
 * lists each with its remedy, and a test compares the two.
 *
 * Messages read "Cannot <verb> <thing>: <fact>. <what to do>." and hold no payload and no
 * credentials.
 */

import type { ValueIssue } from "./standard-schema.ts";

/** Registered with the process, so that two copies of this package know each other's errors. */
const brand = Symbol.for("waybill.error");

/** The codes of all errors, as {@link WaybillError.code} carries them. */
export const errorCodes = [
  "WAYBILL_BROKER_PUBLISH",
  "WAYBILL_BROKER_TOPOLOGY",
  "WAYBILL_BROKER_UNAVAILABLE",
  "WAYBILL_CONFIG_INVALID",
  "WAYBILL_DATABASE_UNAVAILABLE",
  "WAYBILL_HEADERS_INVALID",
  "WAYBILL_INVALID_TRANSITION",
  "WAYBILL_JOB_CANCELLED",
  "WAYBILL_JOB_DEFINED_TWICE",
  "WAYBILL_JOB_FAILED",
  "WAYBILL_JOB_LEASE_LOST",
  "WAYBILL_JOB_NOT_FOUND",
  "WAYBILL_JOB_SHUTDOWN",
  "WAYBILL_JOB_TIMEOUT",
  "WAYBILL_JOB_UNKNOWN",
  "WAYBILL_NAME_INVALID",
  "WAYBILL_NON_RETRYABLE",
  "WAYBILL_NOT_IN_TRANSACTION",
  "WAYBILL_PAYLOAD_INVALID",
  "WAYBILL_PAYLOAD_UNAVAILABLE",
  "WAYBILL_QUEUE_FULL",
  "WAYBILL_RETRY_AFTER",
  "WAYBILL_SCHEMA_VERSION",
  "WAYBILL_TRANSACTION_MISUSED",
] as const;

/** One of {@link errorCodes}. */
export type ErrorCode = (typeof errorCodes)[number];

/** Base of every error that Waybill throws. */
export abstract class WaybillError extends Error {
  abstract readonly code: ErrorCode;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    Object.defineProperty(this, brand, { value: true });
  }

  /** True for a Waybill error of any copy of this package, which `instanceof` does not promise. */
  static is(value: unknown): value is WaybillError {
    return typeof value === "object" && value !== null && brand in value;
  }
}

/** One problem of the configuration. */
export interface ConfigIssue {
  /** The option's path, or the environment variable's name. */
  readonly path: string;
  /** What was expected and what was found. */
  readonly message: string;
}

/** Options or environment are wrong; carries every problem at once. */
export class ConfigError extends WaybillError {
  readonly code = "WAYBILL_CONFIG_INVALID";
  readonly issues: readonly ConfigIssue[];

  constructor(subject: string, issues: readonly ConfigIssue[], options?: ErrorOptions) {
    const lines = issues.map((issue) => `  - ${issue.path || "(options)"}: ${issue.message}`);
    super(`Cannot use the configuration of ${subject}:\n${lines.join("\n")}`, options);
    this.issues = issues;
  }
}

/** A queue, job, schema or key name breaks the rules of names. */
export class NameError extends WaybillError {
  readonly code = "WAYBILL_NAME_INVALID";
}

/** A payload does not fit its schema, is not JSON, or breaks a limit. Nothing was written. */
export class PayloadError extends WaybillError {
  readonly code = "WAYBILL_PAYLOAD_INVALID";
  readonly jobName: string;
  readonly issues: readonly ValueIssue[];

  constructor(jobName: string, issues: readonly ValueIssue[], options?: ErrorOptions) {
    const listed = issues
      .slice(0, 10)
      .map((issue) => `${issue.path || "payload"}: ${issue.message}`);
    const more = issues.length > 10 ? `; and ${issues.length - 10} more` : "";
    super(`Cannot accept the payload of job "${jobName}": ${listed.join("; ")}${more}.`, options);
    this.jobName = jobName;
    this.issues = issues;
  }
}

/** Headers given to enqueue cannot travel on AMQP or use a reserved name. Nothing was written. */
export class HeadersError extends WaybillError {
  readonly code = "WAYBILL_HEADERS_INVALID";
}

/** Two handlers for one job on one worker. */
export class DuplicateJobError extends WaybillError {
  readonly code = "WAYBILL_JOB_DEFINED_TWICE";
  readonly jobName: string;

  constructor(jobName: string) {
    super(
      `Cannot register a handler for job "${jobName}": this worker has one already. ` +
        `Remove one of the two handlers.`,
    );
    this.jobName = jobName;
  }
}

/** A job's type has no handler here. */
export class UnknownJobError extends WaybillError {
  readonly code = "WAYBILL_JOB_UNKNOWN";
  readonly jobName: string;
  readonly queue: string;

  constructor(jobName: string, queue: string) {
    super(
      `Cannot handle job "${jobName}" of queue "${queue}": no handler is registered for it. ` +
        `Deploy a worker that handles it, or retry the job after the deploy.`,
    );
    this.jobName = jobName;
    this.queue = queue;
  }
}

/** enqueue was given something that is not a transaction. Nothing was written. */
export class NotInTransactionError extends WaybillError {
  readonly code = "WAYBILL_NOT_IN_TRANSACTION";

  constructor(action = "enqueue") {
    super(
      `Cannot ${action}: the given connection is not in a transaction, so the job could be stored ` +
        `without your data, or your data without the job. ` +
        `Pass the transaction object of your data layer, or { autocommit: true } if there is no other write.`,
    );
  }
}

/**
 * As many jobs wait as the queue, or the concurrency key in it, may hold. Nothing was written; the
 * statement has failed, so the caller's transaction goes on only from a savepoint.
 */
export class QueueFullError extends WaybillError {
  readonly code = "WAYBILL_QUEUE_FULL";
  readonly queue: string;
  /** The key that is full; undefined where the queue is. */
  readonly key: string | undefined;
  /** How many jobs may wait. */
  readonly max: number;

  constructor(queue: string, key: string | undefined, max: number, options?: ErrorOptions) {
    super(
      `Cannot enqueue into queue "${queue}": ${max} jobs ${key === undefined ? "" : `of key "${key}" `}wait ` +
        `in it, which is its maximum. Roll back and try again later, or raise maxWaiting of the queue.`,
      options,
    );
    this.queue = queue;
    this.key = key;
    this.max = max;
  }
}

/** A handler ended, or tried to end, the transaction that Waybill owns. */
export class TransactionMisusedError extends WaybillError {
  readonly code = "WAYBILL_TRANSACTION_MISUSED";
}

/** The database's Waybill schema is older or newer than this package. */
export class SchemaVersionError extends WaybillError {
  readonly code = "WAYBILL_SCHEMA_VERSION";
  readonly expected: number;
  readonly actual: number;

  constructor(
    schema: string,
    expected: number,
    actual: number,
    options?: ErrorOptions & { readonly fact?: string | undefined },
  ) {
    super(
      options?.fact !== undefined
        ? `Cannot use schema "${schema}": ${options.fact}`
        : actual === 0
          ? `Cannot use schema "${schema}": it holds no Waybill tables. Run "waybill migrate" with this DATABASE_URL.`
          : actual < expected
            ? `Cannot use schema "${schema}": it has version ${actual}, this package needs ${expected}. Run "waybill migrate".`
            : `Cannot use schema "${schema}": it has version ${actual}, this package knows up to ${expected}. Upgrade the @waybill packages.`,
      options,
    );
    this.expected = expected;
    this.actual = actual;
  }
}

/** PostgreSQL cannot be reached, refuses the login, or is read-only. */
export class DatabaseUnavailableError extends WaybillError {
  readonly code = "WAYBILL_DATABASE_UNAVAILABLE";
}

/** No job has this id. */
export class JobNotFoundError extends WaybillError {
  readonly code = "WAYBILL_JOB_NOT_FOUND";
  readonly jobId: string;

  constructor(jobId: string) {
    super(
      `Cannot find job ${jobId}: neither the outbox nor the inbox knows it. ` +
        `Check the id and the schema; a job older than the retention is gone.`,
    );
    this.jobId = jobId;
  }
}

/** The job has failed for good, so it has no result. */
export class JobFailedError extends WaybillError {
  readonly code = "WAYBILL_JOB_FAILED";
  readonly jobId: string;
  readonly failureClass: FailureClass;
  /** What its last attempt failed with. */
  readonly failureMessage: string;

  constructor(jobId: string, failureClass: FailureClass, failureMessage: string) {
    super(
      `Cannot give the result of job ${jobId}: it has failed (${failureClass}) with "${failureMessage}". ` +
        `Mend the cause, then retry the job.`,
    );
    this.jobId = jobId;
    this.failureClass = failureClass;
    this.failureMessage = failureMessage;
  }
}

/** The job's envelope, or its result, is past its retention. */
export class PayloadUnavailableError extends WaybillError {
  readonly code = "WAYBILL_PAYLOAD_UNAVAILABLE";
}

/** The job's state does not allow what was asked. */
export class InvalidTransitionError extends WaybillError {
  readonly code = "WAYBILL_INVALID_TRANSITION";
  readonly from: string;
  readonly to: string;

  constructor(jobId: string, from: string, to: string, advice: string) {
    super(`Cannot move job ${jobId} from ${from} to ${to}. ${advice}`);
    this.from = from;
    this.to = to;
  }
}

/** How much of the link to the broker an error took with it. */
export type BrokerErrorSeverity = "message" | "channel" | "connection";

/** Base of errors of the broker. */
export abstract class BrokerError extends WaybillError {
  readonly severity: BrokerErrorSeverity;

  constructor(message: string, severity: BrokerErrorSeverity, options?: ErrorOptions) {
    super(message, options);
    this.severity = severity;
  }
}

/** The broker cannot be reached, refuses the login, or went away. */
export class BrokerUnavailableError extends BrokerError {
  readonly code = "WAYBILL_BROKER_UNAVAILABLE";
  /** True where waiting cannot help: wrong password, missing vhost, refused certificate. */
  readonly needsOperator: boolean;

  constructor(message: string, needsOperator: boolean, options?: ErrorOptions) {
    super(message, "connection", options);
    this.needsOperator = needsOperator;
  }
}

/** Why a message was not published. */
export type PublishErrorReason = "nacked" | "returned" | "timeout" | "refused";

/** A message was not published. */
export class PublishError extends BrokerError {
  readonly code = "WAYBILL_BROKER_PUBLISH";
  readonly reason: PublishErrorReason;

  constructor(message: string, reason: PublishErrorReason, options?: ErrorOptions) {
    super(message, "message", options);
    this.reason = reason;
  }
}

/** Exchanges, queues or bindings differ from what is wanted. */
export class TopologyError extends BrokerError {
  readonly code = "WAYBILL_BROKER_TOPOLOGY";

  constructor(message: string, options?: ErrorOptions) {
    super(message, "channel", options);
  }
}

/** Reason of a signal: the job was cancelled. */
export class JobCancelledError extends WaybillError {
  readonly code = "WAYBILL_JOB_CANCELLED";
}

/** Reason of a signal: the job ran longer than its timeout. */
export class JobTimeoutError extends WaybillError {
  readonly code = "WAYBILL_JOB_TIMEOUT";
}

/** Another worker owns the job now; nothing this attempt writes is accepted any more. */
export class LeaseLostError extends WaybillError {
  readonly code = "WAYBILL_JOB_LEASE_LOST";
  readonly jobId: string;

  constructor(jobId: string) {
    super(
      `Cannot write for job ${jobId}: another attempt owns it now. Stop; nothing is lost, the other attempt goes on.`,
    );
    this.jobId = jobId;
  }
}

/** Reason of a signal: the worker is shutting down and the grace is over. */
export class ShutdownError extends WaybillError {
  readonly code = "WAYBILL_JOB_SHUTDOWN";
}

/** Why a failed attempt failed. Each class has a policy of its own (see failure.ts). */
export const failureClasses = [
  "transient",
  "rate_limited",
  "validation",
  "permission",
  "partial_progress",
  "timeout",
  "unknown",
  "crashed",
  "expired",
  "no_handler",
  "undecodable",
  "unauthentic",
] as const;

/** One of {@link failureClasses}. */
export type FailureClass = (typeof failureClasses)[number];

/** Thrown by a handler: trying again cannot help, dead-letter the job now. */
export class NonRetryableError extends WaybillError {
  readonly code = "WAYBILL_NON_RETRYABLE";
  readonly failureClass: FailureClass;

  constructor(
    message: string,
    options?: ErrorOptions & { readonly failureClass?: FailureClass | undefined },
  ) {
    super(message, options);
    this.failureClass = options?.failureClass ?? "validation";
  }
}

/** Thrown by a handler: try again after this delay at the earliest, as a Retry-After header asks. */
export class RetryAfterError extends WaybillError {
  readonly code = "WAYBILL_RETRY_AFTER";
  /** Milliseconds; 0 or more. */
  readonly delayMs: number;
  /** What else waits for so long: all jobs of the job's concurrency key, or of its queue. */
  readonly closes: "key" | "queue" | undefined;

  constructor(
    message: string,
    delayMs: number,
    options?: ErrorOptions & { readonly closes?: "key" | "queue" | undefined },
  ) {
    super(message, options);
    this.delayMs = Number.isFinite(delayMs) ? Math.max(0, delayMs) : 0;
    this.closes = options?.closes;
  }
}
