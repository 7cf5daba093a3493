/** What decides when a job goes, as explain_job.sql reads it in one snapshot. */

import type { QueueSettings } from "@waybill/core";
import type { BreakerState } from "./dependency-record.ts";
import { type JobSummary, jobSummaryOf } from "./job-record.ts";
import { instant, integer, integerOrNull, type JsonRow, knownInstant, text } from "./json-row.ts";
import { type QueueStop, stopOf } from "./queue-report.ts";

/** The job that an ordering key waits for. */
export interface HeadFacts {
  readonly id: string;
  /** False: it waits in the backlog itself. */
  readonly dispatched: boolean;
  /** True where it waits for its retry. */
  readonly waiting: boolean;
  readonly state: string;
  readonly worker: string | null;
  readonly startedAt: Date | null;
  readonly retryAt: Date | null;
  readonly failure: string | null;
}

/** A breaker that the job depends on. */
export interface BreakerFacts {
  readonly name: string;
  readonly state: BreakerState;
  readonly manual: boolean;
  readonly reason: string | null;
  readonly probeAt: Date | null;
}

/** A living worker of the job's queue. */
export interface WorkerFacts {
  readonly name: string;
  readonly draining: boolean;
  /** Jobs of all its queues at its last heartbeat. */
  readonly running: number;
  readonly blockedMs: number | null;
  readonly blockedBy: string | null;
  /** Its share of the queue's limit; null: there is no limit, or it has none yet. */
  readonly share: number | null;
  /** Its shares of all its queues, or what it can take of those without a limit; null: not known. */
  readonly capacity: number | null;
}

/** Who runs the job, or ran it last. */
export interface OwnerFacts {
  readonly name: string;
  readonly alive: boolean;
  readonly heartbeatAgeMs: number;
  readonly blockedMs: number | null;
  readonly blockedBy: string | null;
}

/** Everything that {@link explainOf} looks at. */
export interface JobFacts {
  readonly now: Date;
  readonly job: JobSummary;
  /** Concurrency key; empty: none. */
  readonly key: string;
  readonly relay: {
    readonly holder: string | null;
    readonly held: boolean;
    readonly savedAt: Date | null;
  };
  /** Its newest row of the outbox; null where it has none (any more). */
  readonly written: {
    readonly dispatch: number;
    readonly relayed: boolean;
    readonly ahead: number;
  } | null;
  readonly governed: boolean;
  readonly settings: QueueSettings;
  readonly queueStop: QueueStop;
  readonly typeStop: QueueStop;
  readonly keyStop: QueueStop;
  readonly tier: string | null;
  /** Its row in the backlog: those of its lane before it, and all that wait; each 10,000 at most. */
  readonly backlog: { readonly ahead: number; readonly waiting: number } | null;
  readonly slot: { readonly waiting: boolean; readonly dispatchedAt: Date } | null;
  readonly head: HeadFacts | null;
  /** Slots of other jobs. */
  readonly used: { readonly queue: number; readonly type: number; readonly key: number };
  readonly breakers: readonly BreakerFacts[];
  readonly workers: readonly WorkerFacts[];
  readonly owner: OwnerFacts | null;
}

const rowOf = (value: unknown): JsonRow | null => (value ?? null) as JsonRow | null;
const rowsOf = (value: unknown): readonly JsonRow[] => (value ?? []) as readonly JsonRow[];

const headOf = (row: JsonRow): HeadFacts => ({
  id: String(row["id"]),
  dispatched: row["dispatched"] === true,
  waiting: row["waiting"] === true,
  state: String(row["state"]),
  worker: text(row["worker"]),
  startedAt: instant(row["started_at"]),
  retryAt: instant(row["retry_at"]),
  failure: text(row["failure"]),
});

const breakerOf = (row: JsonRow): BreakerFacts => ({
  name: String(row["name"]),
  state: row["state"] as BreakerState,
  manual: row["manual"] === true,
  reason: text(row["reason"]),
  probeAt: instant(row["probe_at"]),
});

const workerOf = (row: JsonRow): WorkerFacts => ({
  name: String(row["name"]),
  draining: row["state"] === "draining",
  running: integer(row["running"]),
  blockedMs: integerOrNull(row["blocked_ms"]),
  blockedBy: text(row["blocked_by"]),
  share: integerOrNull(row["share"]),
  capacity: integerOrNull(row["capacity"]),
});

const ownerOf = (row: JsonRow): OwnerFacts => ({
  name: String(row["name"]),
  alive: row["alive"] === true,
  heartbeatAgeMs: integer(row["heartbeat_age_ms"]),
  blockedMs: integerOrNull(row["blocked_ms"]),
  blockedBy: text(row["blocked_by"]),
});

/** Facts of the JSON of explain_job.sql. */
export function jobFactsOf(row: JsonRow): JobFacts {
  const relay = rowOf(row["relay"]);
  const written = rowOf(row["written"]);
  const queue = rowOf(row["queue"]) ?? {};
  const backlog = rowOf(row["backlog"]);
  const slot = rowOf(row["slot"]);
  const head = rowOf(row["head"]);
  const owner = rowOf(row["owner"]);
  const used = rowOf(row["used"]);
  const gates = rowsOf(row["gates"]);
  const gate = (kind: string): JsonRow => gates.find((each) => each["kind"] === kind) ?? {};
  return {
    now: knownInstant(row["now"]),
    job: jobSummaryOf(rowOf(row["job"]) ?? {}),
    key: text(row["key"]) ?? "",
    relay: {
      holder: text(relay?.["holder"]),
      held: relay?.["held"] === true,
      savedAt: instant(relay?.["saved_at"]),
    },
    written:
      written === null
        ? null
        : {
            dispatch: integer(written["dispatch"]),
            relayed: written["relayed"] === true,
            ahead: integer(written["ahead"]),
          },
    governed: queue["governed"] === true,
    settings: queue["settings"] ?? {},
    queueStop: stopOf(queue),
    typeStop: stopOf(gate("type")),
    keyStop: stopOf(gate("key")),
    tier: text(gate("key")["tier"]),
    backlog:
      backlog === null
        ? null
        : { ahead: integer(backlog["ahead"]), waiting: integer(backlog["waiting"]) },
    slot:
      slot === null
        ? null
        : {
            waiting: slot["waiting"] === true,
            dispatchedAt: knownInstant(slot["dispatched_at"]),
          },
    head: head === null ? null : headOf(head),
    used: {
      queue: integer(used?.["queue"]),
      type: integer(used?.["type"]),
      key: integer(used?.["key"]),
    },
    breakers: rowsOf(row["breakers"]).map(breakerOf),
    workers: rowsOf(row["workers"]).map(workerOf),
    owner: owner === null ? null : ownerOf(owner),
  };
}
