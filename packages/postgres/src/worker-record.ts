import { instant, integerOrNull, type JsonRow, knownInstant, text } from "./json-row.ts";

/** A worker, as the database knows it: what it said at its last heartbeat. */
export interface WorkerRecord {
  /** Boot id: a fresh one for every start, and after a lost lease. */
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  /** Version of its package. */
  readonly version: string;
  /** False where its lease is over or its session lock is gone: others take over what it ran. */
  readonly alive: boolean;
  /** `draining`: it takes no more jobs. */
  readonly state: "running" | "draining";
  /** What somebody asked it to do; null where nobody did. */
  readonly stopRequested: StopRequest | null;
  readonly stopRequestedAt: Date | null;
  readonly stopRequestedBy: string | null;
  readonly queues: readonly string[];
  /** Jobs that it ran at its last heartbeat. */
  readonly running: number;
  /** Attempts that it has finished since it started. */
  readonly finishedJobs: number;
  /** Memory of its process. */
  readonly rssBytes: number | null;
  /** How long it holds a delivery before it acks it and relies on its lease. */
  readonly holdMs: number | null;
  /** How long its event loop has not turned; null where it turns. */
  readonly blockedMs: number | null;
  /** The handler that blocks it, where that is known. */
  readonly blockedBy: string | null;
  readonly startedAt: Date;
  readonly heartbeatAt: Date;
  /** Time between its heartbeats. */
  readonly heartbeatMs: number | null;
  /** Time since its last heartbeat, by the database's clock. */
  readonly heartbeatAgeMs: number;
  readonly leaseUntil: Date;
  /** What is left of its lease, by the database's clock; 0 where it is over. */
  readonly leaseLeftMs: number;
  /** Running jobs that a dead worker still owns; null where that was not asked for, or it is alive. */
  readonly ownedJobs: number | null;
}

/** What a worker can be asked to do. */
export type StopRequest = "drain" | "restart";

/** Record of a row of list_workers.sql. */
export function workerRecordOf(row: JsonRow): WorkerRecord {
  return {
    id: String(row["id"]),
    name: String(row["name"]),
    host: String(row["host"]),
    pid: Number(row["pid"]),
    version: String(row["version"]),
    alive: row["alive"] === true,
    state: row["state"] as WorkerRecord["state"],
    stopRequested: text(row["stop_requested"]) as StopRequest | null,
    stopRequestedAt: instant(row["stop_requested_at"]),
    stopRequestedBy: text(row["stop_requested_by"]),
    queues: row["queues"] as readonly string[],
    running: Number(row["running"]),
    finishedJobs: Number(row["finished_jobs"]),
    rssBytes: integerOrNull(row["rss_bytes"]),
    holdMs: integerOrNull(row["hold_ms"]),
    blockedMs: integerOrNull(row["blocked_ms"]),
    blockedBy: text(row["blocked_by"]),
    startedAt: knownInstant(row["started_at"]),
    heartbeatAt: knownInstant(row["heartbeat_at"]),
    heartbeatMs: integerOrNull(row["heartbeat_ms"]),
    heartbeatAgeMs: Number(row["heartbeat_age_ms"]),
    leaseUntil: knownInstant(row["lease_until"]),
    leaseLeftMs: Number(row["lease_left_ms"]),
    ownedJobs: integerOrNull(row["owned_jobs"]),
  };
}
