import type { ResolvedDependencySettings } from "@waybill/core";
import { instant, integer, integerOrNull, type JsonRow, knownInstant, text } from "./json-row.ts";

/**
 * State of a dependency's breaker. `closed`: its jobs go; `open`: they wait; `half_open`: one at a time
 * goes as a probe.
 */
export type BreakerState = "closed" | "open" | "half_open";

/** A dependency and its breaker, as the database knows them. */
export interface DependencyRecord {
  readonly name: string;
  /** As the worker declared them that started last. */
  readonly settings: ResolvedDependencySettings;
  readonly state: BreakerState;
  /** True where an operator opened it: only an operator closes it. */
  readonly manual: boolean;
  /** Why it is in this state; null where nobody said, and where it has never changed. */
  readonly reason: string | null;
  /** How often it has opened since a probe succeeded. */
  readonly openings: number;
  /** When the next probe may go; null where it is not open, or an operator opened it. */
  readonly probeAt: Date | null;
  /** What is left until then by the database's clock, in milliseconds; 0 where it is due. */
  readonly probeInMs: number | null;
  /** When the state last changed. */
  readonly changedAt: Date;
  /** Who changed it: an operator, or `waybill`. */
  readonly changedBy: string;
  /** Attempts that are counted now: those of the window that began after the last change. */
  readonly counted: { readonly succeeded: number; readonly failed: number };
}

/** One change of a breaker. */
export interface DependencyEvent {
  /** Number of the event; a later one has a larger one. */
  readonly id: string;
  readonly at: Date;
  readonly dependency: string;
  /** State that it went to. */
  readonly state: BreakerState;
  readonly reason: string | null;
  /** Who changed it: an operator, or `waybill`. */
  readonly actor: string;
}

/** Record of a row of list_dependencies.sql. */
export function dependencyRecordOf(row: JsonRow): DependencyRecord {
  return {
    name: String(row["name"]),
    settings: row["settings"] as ResolvedDependencySettings,
    state: row["state"] as BreakerState,
    manual: row["manual"] === true,
    reason: text(row["reason"]),
    openings: integer(row["openings"]),
    probeAt: instant(row["probe_at"]),
    probeInMs: integerOrNull(row["probe_in_ms"]),
    changedAt: knownInstant(row["changed_at"]),
    changedBy: String(row["changed_by"]),
    counted: { succeeded: integer(row["succeeded"]), failed: integer(row["failed"]) },
  };
}

/** Event of a row of list_dependency_events.sql. */
export function dependencyEventOf(row: JsonRow): DependencyEvent {
  return {
    id: String(row["event_id"]),
    at: knownInstant(row["at"]),
    dependency: String(row["dependency"]),
    state: row["state"] as BreakerState,
    reason: text(row["reason"]),
    actor: String(row["actor"]),
  };
}
