import type { FailureClass, JobState } from "@waybill/core";

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

/** The newest place in its work that a job has committed. */
export interface JobCheckpoint {
  /** One more with every checkpoint of the job. */
  readonly number: number;
  /** Attempt that saved it. */
  readonly attempt: number;
  /** The checkpoint as JSON text. */
  readonly checkpoint: string;
  readonly createdAt: Date;
}

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
  /** Who cancelled it, or asked for that last; `waybill` where it expired. */
  readonly cancelledBy: string | null;
  readonly cancelReason: string | null;
  /** Null before its handler's first report. */
  readonly progress: JobProgress | null;
  /** True where it is `running` and its worker's heartbeat has stopped: another one will take over. */
  readonly stale: boolean;
  /** Name of the event that is published when it ends. */
  readonly onTerminal: string | null;
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
  readonly action: "cancel" | "retry" | "redrive" | "release" | "rescan" | "drain" | "restart";
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
  readonly checkpoint: JobCheckpoint | null;
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

export const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
export const integer = (value: unknown): number => Number(value ?? 0);
const integerOrNull = (value: unknown): number | null =>
  value === null || value === undefined ? null : Number(value);

/** Null for SQL null, for infinity, and for what is no instant. */
export function instant(value: unknown): Date | null {
  if (typeof value !== "string") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
}

const knownInstant = (value: unknown): Date => instant(value) ?? new Date(0);

/** Progress of a row of the view job. */
export function jobProgressOf(row: JsonRow): JobProgress | null {
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
    cancelledBy: text(row["cancelled_by"]),
    cancelReason: text(row["cancel_reason"]),
    progress: jobProgressOf(row),
    stale: row["stale"] === true,
    onTerminal: text(row["on_terminal"]),
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

function checkpointOf(row: JsonRow): JobCheckpoint {
  return {
    number: integer(row["number"]),
    attempt: integer(row["attempt"]),
    checkpoint: String(row["checkpoint"]),
    createdAt: knownInstant(row["created_at"]),
  };
}

/** Record of a row of the view job with its history. */
export function jobRecordOf(row: JsonRow): JobRecord {
  const checkpoint = (row["checkpoint"] ?? null) as JsonRow | null;
  return {
    ...jobSummaryOf(row),
    payload: text(row["payload"]),
    payloadBase64: row["payload_base64"] === true,
    headers: (row["headers"] ?? {}) as Readonly<Record<string, string>>,
    result: text(row["result"]),
    checkpoint: checkpoint === null ? null : checkpointOf(checkpoint),
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
