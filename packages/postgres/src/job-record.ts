import type { FailureClass, JobState } from "@waybill/core";

/** A job as lists show it: everything but payload, headers, result and history. */
export interface JobSummary {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly version: number;
  readonly state: JobState;
  /** True once the relay has published it for the first time. */
  readonly relayed: boolean;
  readonly priority: number;
  readonly orderingKey: string | null;
  readonly correlationId: string | null;
  /** Number of the current or last attempt; 0 before the first and after a redrive. */
  readonly attempt: number;
  /** How often a worker died while running it. */
  readonly crashes: number;
  readonly dispatch: number;
  /** How often it was dead-lettered. */
  readonly deaths: number;
  /** Boot id of the worker that runs it, or ran it last. */
  readonly owner: string | null;
  readonly worker: string | null;
  /** Null where it is not known any more. */
  readonly enqueuedAt: Date | null;
  /** When it goes on; null where it waits for nothing, or for an operator (see `parked`). */
  readonly nextAt: Date | null;
  /** True where it waits until an operator releases it. */
  readonly parked: boolean;
  /** Why it waits: `delay`, `retry`, `held`, `no_handler`, `unroutable`, `nacked`, `refused`. */
  readonly waitingFor: string | null;
  readonly waitingDetail: string | null;
  readonly expiresAt: Date | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly cancelRequestedAt: Date | null;
  /** Of the last failed attempt. */
  readonly failureClass: FailureClass | null;
  readonly failureMessage: string | null;
  readonly failedAt: Date | null;
}

/** A failed attempt. */
export interface JobFailure {
  readonly attempt: number;
  readonly failureClass: FailureClass;
  readonly message: string;
  readonly stack: string | null;
  /** Equal for failures of the same kind. */
  readonly fingerprint: string;
  readonly worker: string | null;
  /** True where it dead-lettered the job. */
  readonly terminal: boolean;
  readonly failedAt: Date;
}

/** An operator's act on a job. */
export interface JobAudit {
  readonly at: Date;
  readonly actor: string;
  readonly action: "cancel" | "retry" | "redrive" | "release" | "rescan";
  readonly detail: string | null;
}

/** A job with everything that is known of it. */
export interface JobRecord extends JobSummary {
  /** Exact text of the payload, which is JSON unless a foreign producer sent it; null where it is gone. */
  readonly payload: string | null;
  /** True where `payload` is base64 of bytes that are no text. */
  readonly payloadBase64: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** What the handler gave back, as JSON text. */
  readonly result: string | null;
  /** Failed attempts, oldest first. */
  readonly failures: readonly JobFailure[];
  /** Acts of operators, oldest first. */
  readonly audit: readonly JobAudit[];
}

/** A job that ended as failed and can be redriven. */
export interface DeadLetterRecord {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly version: number;
  readonly attempts: number;
  readonly failureClass: FailureClass;
  readonly message: string;
  readonly fingerprint: string;
  readonly priority: number | null;
  readonly orderingKey: string | null;
  readonly correlationId: string | null;
  readonly enqueuedAt: Date;
  readonly diedAt: Date;
}

/** A row as PostgreSQL's to_jsonb made it: snake_case keys, instants as text. */
export type JsonRow = Readonly<Record<string, unknown>>;

const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
const integer = (value: unknown): number => Number(value ?? 0);

/** Null for SQL null, for infinity, and for what is no instant. */
function instant(value: unknown): Date | null {
  if (typeof value !== "string") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

const knownInstant = (value: unknown): Date => instant(value) ?? new Date(0);

/** Summary of a row of the view job. */
export function jobSummaryOf(row: JsonRow): JobSummary {
  return {
    id: String(row["id"]),
    queue: String(row["queue"]),
    type: String(row["type"]),
    version: integer(row["version"]),
    state: row["state"] as JobState,
    relayed: row["relayed"] === true,
    priority: integer(row["priority"]),
    orderingKey: text(row["ordering_key"]),
    correlationId: text(row["correlation_id"]),
    attempt: integer(row["attempt"]),
    crashes: integer(row["crashes"]),
    dispatch: integer(row["dispatch"]),
    deaths: integer(row["deaths"]),
    owner: text(row["owner"]),
    worker: text(row["worker"]),
    enqueuedAt: instant(row["enqueued_at"]),
    nextAt: instant(row["next_at"]),
    parked: row["next_at"] === "infinity",
    waitingFor: text(row["waiting_for"]),
    waitingDetail: text(row["waiting_detail"]),
    expiresAt: instant(row["expires_at"]),
    startedAt: instant(row["started_at"]),
    finishedAt: instant(row["finished_at"]),
    cancelRequestedAt: instant(row["cancel_requested_at"]),
    failureClass: text(row["failure_class"]) as FailureClass | null,
    failureMessage: text(row["failure_message"]),
    failedAt: instant(row["failed_at"]),
  };
}

function failureOf(row: JsonRow): JobFailure {
  return {
    attempt: integer(row["attempt"]),
    failureClass: row["failure_class"] as FailureClass,
    message: String(row["message"]),
    stack: text(row["stack"]),
    fingerprint: String(row["fingerprint"]),
    worker: text(row["worker"]),
    terminal: row["terminal"] === true,
    failedAt: knownInstant(row["failed_at"]),
  };
}

function auditOf(row: JsonRow): JobAudit {
  return {
    at: knownInstant(row["at"]),
    actor: String(row["actor"]),
    action: row["action"] as JobAudit["action"],
    detail: text(row["detail"]),
  };
}

/** Record of a row of the view job with its history. */
export function jobRecordOf(row: JsonRow): JobRecord {
  return {
    ...jobSummaryOf(row),
    payload: text(row["payload"]),
    payloadBase64: row["payload_base64"] === true,
    headers: (row["headers"] ?? {}) as Readonly<Record<string, string>>,
    result: text(row["result"]),
    failures: ((row["failures"] ?? []) as readonly JsonRow[]).map(failureOf),
    audit: ((row["audit"] ?? []) as readonly JsonRow[]).map(auditOf),
  };
}

/** Record of a row of the table dead_letter. */
export function deadLetterOf(row: JsonRow): DeadLetterRecord {
  return {
    id: String(row["id"]),
    queue: String(row["queue"]),
    type: String(row["type"]),
    version: integer(row["version"]),
    attempts: integer(row["attempts"]),
    failureClass: row["failure_class"] as FailureClass,
    message: String(row["message"]),
    fingerprint: String(row["fingerprint"]),
    priority: row["priority"] === null ? null : integer(row["priority"]),
    orderingKey: text(row["ordering_key"]),
    correlationId: text(row["correlation_id"]),
    enqueuedAt: knownInstant(row["enqueued_at"]),
    diedAt: knownInstant(row["died_at"]),
  };
}
