import { instant, integer, type JsonRow, knownInstant, text } from "./json-row.ts";

/** What stops the first job of an ordering key. */
export type BlockedReason =
  | "running"
  | "retry"
  | "paused"
  | "closed"
  | "breaker"
  | "dispatched"
  | "due";

/** An ordering key whose first job keeps others waiting, or waits for its retry. */
export interface BlockedKey {
  readonly queue: string;
  readonly orderingKey: string;
  /** The first job of the key. */
  readonly jobId: string;
  readonly type: string;
  readonly attempt: number;
  /**
   * `running`: it runs; `retry`: it waits for its retry; `due`: its retry is due and waits for its turn;
   * `dispatched`: it is at the broker; `paused`, `closed`, `breaker`: that keeps it, beside its place.
   */
  readonly reason: BlockedReason;
  /** The same in words. */
  readonly detail: string;
  /** Since when: its last failure, or its dispatch. */
  readonly since: Date;
  /** When its retry comes; null where it waits for none. */
  readonly retryAt: Date | null;
  /** Jobs that wait behind it; counted up to 10,000. */
  readonly jobs: number;
}

/** Why, with the facts in words. */
function reasonOf(row: JsonRow): readonly [reason: BlockedReason, detail: string] {
  if (row["state"] === "running") {
    const since = instant(row["started_at"])?.toISOString() ?? "an unknown time";
    return ["running", `runs on ${text(row["worker"]) ?? "an unknown worker"} since ${since}`];
  }
  const retryAt = instant(row["retry_at"]);
  if (retryAt !== null) {
    const failure = text(row["failure_message"]);
    const after = failure === null ? "" : ` after: ${failure.split("\n")[0] ?? ""}`;
    return ["retry", `waits for its retry until ${retryAt.toISOString()}${after}`];
  }
  const paused = text(row["paused"]);
  if (paused !== null) return ["paused", `its ${paused} is paused`];
  const closedUntil = instant(row["closed_until"]);
  if (closedUntil !== null) {
    return ["closed", `a handler has closed it until ${closedUntil.toISOString()}`];
  }
  const breaker = text(row["breaker"]);
  if (breaker !== null) return ["breaker", `breaker ${breaker} is not closed`];
  return row["waiting"] === true
    ? ["due", "its retry is due and waits for its turn"]
    : ["dispatched", "is dispatched, for a worker to take"];
}

/** Record of a row of list_blocked_keys.sql. */
export function blockedKeyOf(row: JsonRow): BlockedKey {
  const [reason, detail] = reasonOf(row);
  const failedAt = row["waiting"] === true ? instant(row["failed_at"]) : null;
  return {
    queue: String(row["queue"]),
    orderingKey: String(row["ordering_key"]),
    jobId: String(row["id"]),
    type: String(row["type"]),
    attempt: integer(row["attempt"]),
    reason,
    detail,
    since: failedAt ?? knownInstant(row["dispatched_at"]),
    retryAt: instant(row["retry_at"]),
    jobs: integer(row["jobs"]),
  };
}
