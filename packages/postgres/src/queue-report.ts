import { type QueueSettings, queueSettingNames } from "@waybill/core";
import { instant, integer, integerOrNull, type JsonRow, knownInstant, text } from "./json-row.ts";

/** Settings as one side gave them; of an operator's, null takes a declared setting away. */
export type QueueOverrides = {
  readonly [K in keyof QueueSettings]?: QueueSettings[K] | null | undefined;
};

/** A pause or a closed tap, of a queue, a job type or a key. */
export interface QueueStop {
  /** When it was paused; null where it is not. */
  readonly pausedAt: Date | null;
  readonly pausedBy: string | null;
  readonly pauseReason: string | null;
  /** Until when a handler's RetryAfterError keeps it closed; null where it is open. */
  readonly closedUntil: Date | null;
  readonly closedReason: string | null;
}

/** A queue as lists show it. */
export interface QueueSummary extends QueueStop {
  readonly name: string;
  /** True where its jobs wait in the database; false where they go to the broker at once. */
  readonly governed: boolean;
  /** Settings as `defineQueue` gave them. */
  readonly declared: QueueSettings;
  /** Settings that operators have set. */
  readonly overrides: QueueOverrides;
  /** What holds: the declared settings with the overrides. */
  readonly settings: QueueSettings;
  /** When anything of these was last changed; null where nothing was ever said. */
  readonly changedAt: Date | null;
  /** Jobs that wait for their turn in the database; 0 of a queue that is not governed. */
  readonly waiting: number;
  /** Jobs between their dispatch and their end that count towards its limits. */
  readonly dispatched: number;
  /** Ordering keys whose first job waits for its retry. */
  readonly blocked: number;
  readonly pausedTypes: number;
  readonly pausedKeys: number;
  /** Living workers that consume it. */
  readonly workers: number;
  /** Jobs of it that those run at a time, at most; null where none has said. */
  readonly capacity: number | null;
}

/** What is said of one job type or key of a queue. */
export interface QueueGateReport extends QueueStop {
  readonly kind: "type" | "key";
  /** The job's name, or the concurrency key. */
  readonly name: string;
  /** Of a key: its tier of `keys.tiers`. */
  readonly tier: string | null;
}

/** A living worker of a queue. */
export interface QueueWorker {
  /** Its boot id. */
  readonly worker: string;
  readonly name: string;
  /** Jobs of the queue that it runs at a time, at most; null where it has not said. */
  readonly concurrency: number | null;
  /** Its share of the queue's limit; null where there is no limit, or where it has none yet. */
  readonly granted: number | null;
  /** What it may be using until it says less; null where it has not said. */
  readonly held: number | null;
}

/** An operator's act on a queue. */
export interface QueueAudit {
  readonly at: Date;
  readonly actor: string;
  readonly action: "set" | "pause" | "resume";
  readonly detail: string | null;
}

/** A queue with everything that is known of it. */
export interface QueueReport extends QueueSummary {
  /** Types and keys that are paused, closed, or in a tier; 10,000 at most. */
  readonly gates: readonly QueueGateReport[];
  readonly shares: readonly QueueWorker[];
  /** The last 20 acts of operators, oldest first. */
  readonly audit: readonly QueueAudit[];
}

/** Pause and closed tap of a row. */
export const stopOf = (row: JsonRow): QueueStop => ({
  pausedAt: instant(row["paused_at"]),
  pausedBy: text(row["paused_by"]),
  pauseReason: text(row["pause_reason"]),
  closedUntil: instant(row["closed_until"]),
  closedReason: text(row["closed_reason"]),
});

/** The same settings in the order in which they are documented: jsonb keeps none. */
export function inOrder<T extends QueueOverrides>(settings: T): T {
  const names = queueSettingNames.filter((name) => name in settings);
  return Object.fromEntries(names.map((name) => [name, settings[name]])) as T;
}

/** Summary of a row of list_queues.sql. */
export function queueSummaryOf(row: JsonRow): QueueSummary {
  return {
    name: String(row["name"]),
    governed: row["governed"] === true,
    declared: inOrder(row["declared"] as QueueSettings),
    overrides: inOrder(row["overrides"] as QueueOverrides),
    settings: inOrder(row["settings"] as QueueSettings),
    changedAt: instant(row["changed_at"]),
    ...stopOf(row),
    waiting: integer(row["waiting"]),
    dispatched: integer(row["dispatched"]),
    blocked: integer(row["blocked"]),
    pausedTypes: integer(row["paused_types"]),
    pausedKeys: integer(row["paused_keys"]),
    workers: integer(row["workers"]),
    capacity: integerOrNull(row["capacity"]),
  };
}

const gateOf = (row: JsonRow): QueueGateReport => ({
  kind: row["kind"] as QueueGateReport["kind"],
  name: String(row["name"]),
  tier: text(row["tier"]),
  ...stopOf(row),
});

const shareOf = (row: JsonRow): QueueWorker => ({
  worker: String(row["worker"]),
  name: String(row["name"]),
  concurrency: integerOrNull(row["concurrency"]),
  granted: integerOrNull(row["granted"]),
  held: integerOrNull(row["held"]),
});

const auditOf = (row: JsonRow): QueueAudit => ({
  at: knownInstant(row["at"]),
  actor: String(row["actor"]),
  action: row["action"] as QueueAudit["action"],
  detail: text(row["detail"]),
});

/** Report of a summary and the three JSON arrays of get_queue.sql. */
export function queueReportOf(
  summary: QueueSummary,
  more: {
    readonly gates: readonly JsonRow[];
    readonly shares: readonly JsonRow[];
    readonly audit: readonly JsonRow[];
  },
): QueueReport {
  return {
    ...summary,
    gates: more.gates.map(gateOf),
    shares: more.shares.map(shareOf),
    audit: more.audit.map(auditOf),
  };
}
