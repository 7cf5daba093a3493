import type { FailureClass } from "@waybill/core";
import { type JobStatus, jobStatusOf } from "./job-status.ts";
import { instant, integer, integerOrNull, type JsonRow, knownInstant, text } from "./json-row.ts";

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
export interface JobSummary extends JobStatus {
  /** True once the relay has published it for the first time. */
  readonly relayed: boolean;
  readonly priority: number;
  readonly orderingKey: string | null;
  readonly concurrencyKey: string | null;
  readonly correlationId: string | null;
  /** How often a worker died while running it. */
  readonly crashes: number;
  readonly dispatch: number;
  /** How often it was dead-lettered. */
  readonly deaths: number;
  /** Boot id of the worker that runs it, or ran it last. */
  readonly owner: string | null;
  readonly worker: string | null;
  /** True where it waits until an operator releases it. */
  readonly parked: boolean;
  readonly waitingDetail: string | null;
  readonly expiresAt: Date | null;
  /** Name of the event that is published when it ends. */
  readonly onTerminal: string | null;
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
  readonly action:
    | "cancel"
    | "retry"
    | "redrive"
    | "release"
    | "rescan"
    | "drain"
    | "restart"
    | "edit"
    | "reprioritise"
    | "delay"
    | "drop"
    | "replace";
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

/** Summary of a row of the view job. */
export function jobSummaryOf(row: JsonRow): JobSummary {
  return {
    ...jobStatusOf(row),
    relayed: row["relayed"] === true,
    priority: integer(row["priority"]),
    orderingKey: text(row["ordering_key"]),
    concurrencyKey: text(row["concurrency_key"]),
    correlationId: text(row["correlation_id"]),
    crashes: integer(row["crashes"]),
    dispatch: integer(row["dispatch"]),
    deaths: integer(row["deaths"]),
    owner: text(row["owner"]),
    worker: text(row["worker"]),
    parked: row["next_at"] === "infinity",
    waitingDetail: text(row["waiting_detail"]),
    expiresAt: instant(row["expires_at"]),
    onTerminal: text(row["on_terminal"]),
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
    priority: integerOrNull(row["priority"]),
    orderingKey: text(row["ordering_key"]),
    correlationId: text(row["correlation_id"]),
    enqueuedAt: knownInstant(row["enqueued_at"]),
    diedAt: knownInstant(row["died_at"]),
  };
}
