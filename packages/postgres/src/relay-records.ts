/** What the relay's store takes and gives; see relay-store.ts. */

import type { Dispatch } from "@waybill/core";

/** A row of the outbox as the relay reads it. */
export interface OutboxRow {
  readonly tx: string;
  readonly seq: string;
  readonly id: string;
  readonly kind: Dispatch["kind"];
  readonly dispatch: number;
  readonly queue: string | null;
  readonly type: string;
  readonly version: number;
  readonly exchange: string | null;
  readonly routing_key: string | null;
  /** Null of rows with an ordering key on pages that leave these for later. */
  readonly payload: string | null;
  readonly payload_base64: boolean;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly priority: number | null;
  readonly ordering_key: string | null;
  readonly correlation_id: string | null;
  readonly expires_at: Date | null;
  readonly enqueued_at: Date;
  readonly created_at: Date;
  /** How often publishing it failed before. */
  readonly failures: number;
}

/** A page of the outbox. */
export interface OutboxPage {
  /** Snapshot of the read, of a window's first page. */
  readonly snapshot: string | null;
  readonly rows: readonly OutboxRow[];
  /** True if a limit ended it: there may be more. */
  readonly full: boolean;
  /** Of keyed pages: seq up to which everything was looked at. */
  readonly upto: string | null;
}

/** Limits of one page. */
export interface PageLimits {
  readonly rows: number;
  readonly bytes: number;
}

/** The cursor as it is saved. */
export interface StoredCursor {
  readonly snapshot: string | null;
  readonly window: string | null;
  readonly keyed: boolean;
  readonly tx: string | null;
  readonly seq: string | null;
  readonly keyedFrom: string | null;
  readonly keyedTo: string | null;
}

/** The cursor with what tells whether this server can honour it. */
export interface CursorRecord extends StoredCursor {
  readonly storedSystem: string | null;
  readonly system: string | null;
  readonly storedOid: string | null;
  readonly oid: string;
  /** True if it lies beyond the server's transactions. */
  readonly beyond: boolean;
}

/** A row that could not be published. */
export interface ParkedDispatch {
  readonly tx: string;
  readonly seq: string;
  readonly reason: "unroutable" | "nacked" | "refused";
  readonly detail: string;
  /** Milliseconds until it is tried again; null: when an operator says so. */
  readonly delayMs: number | null;
}

/** A partition; the default one has no bounds. */
export interface Partition {
  readonly name: string;
  readonly lower: Date | null;
  readonly upper: Date | null;
}

/** Partitions and the server's time. */
export interface PartitionList {
  readonly partitions: readonly Partition[];
  readonly now: Date;
}

/** A table with partitions. */
export type PartitionedTable = "outbox" | "inbox";

/** What the pruner deletes. */
export type Prunable =
  | "failures"
  | "results"
  | "dead_letters"
  | "checkpoints"
  | "progress"
  | "watches"
  | "audit_log"
  | "workers"
  | "unheard_events"
  | "dependency_events"
  | "inbox_default"
  | "outbox_default";

/** What a look for leases of dead owners has done. */
export interface FiredLeases {
  /** Jobs that are due now. */
  readonly jobs: number;
  /** Owners whose lock is missing while their lease runs. */
  readonly missing: readonly string[];
}

/** A worker whose lease is over and whose jobs have not been dispatched again since. */
export interface DeadWorker {
  readonly id: string;
  /** Jobs that it ran at its last heartbeat. */
  readonly running: number;
}

/** See {@link createRelayStore}. Epochs are bigints as text. */
export interface RelayStore {
  /** True if the cursor's row was missing. */
  ensureRelay(): Promise<boolean>;
  /** The new epoch, or undefined while another relay holds the term. */
  takeTerm(holder: string, name: string, leaseMs: number): Promise<string | undefined>;
  /** Who holds the term and how long yet, in milliseconds. */
  watchTerm(): Promise<{ readonly holder: string | null; readonly remainingMs: number }>;
  /** False: another relay has taken the term. */
  renewTerm(epoch: string, leaseMs: number): Promise<boolean>;
  releaseTerm(epoch: string): Promise<void>;
  /** Undefined: another relay has taken the term. */
  readCursor(epoch: string): Promise<CursorRecord | undefined>;
  /** False: another relay has taken the term, nothing was saved. */
  saveCursor(epoch: string, cursor: StoredCursor): Promise<boolean>;
  markOrigin(epoch: string): Promise<void>;
  /** Which database this is, in its present life; messages carry it. */
  origin(): Promise<string | undefined>;
  /** How many rows are published again; undefined: another relay has taken the term. */
  rescan(epoch: string, snapshotTrusted: boolean, why: string): Promise<number | undefined>;
  /** Rows after a snapshot; `late`: it has transactions in progress. */
  readWindow(after: string, late: boolean, limits: PageLimits): Promise<OutboxPage>;
  readLatePage(
    xids: readonly string[],
    tx: string,
    seq: string,
    limits: PageLimits,
  ): Promise<OutboxPage>;
  readFreshPage(until: string, tx: string, seq: string, limits: PageLimits): Promise<OutboxPage>;
  readKeyedPage(
    bounds: { readonly after: string; readonly until: string },
    seq: string,
    to: string,
    limits: PageLimits,
  ): Promise<OutboxPage>;
  /** Copies rows into the timers; nothing without the term. */
  park(epoch: string, rows: readonly ParkedDispatch[]): Promise<void>;
  /** How many timers were due and are in the outbox now. */
  fireTimers(limit: number): Promise<number>;
  /** Milliseconds until the next timer; undefined: none waits. */
  nextTimerMs(): Promise<number | undefined>;
  /** Holds the oldest due timer until an operator releases it; its id. */
  holdTimer(detail: string): Promise<string | undefined>;
  partitions(table: PartitionedTable): Promise<PartitionList>;
  /** Days or weeks of the rows that the default partition has caught within the last time. */
  defaultRows(table: PartitionedTable, withinMs: number): Promise<readonly Date[]>;
  /** False: more than `rowsMax` rows would have to be moved from the default partition. */
  createPartition(
    table: PartitionedTable,
    partition: { readonly name: string; readonly lower: Date; readonly upper: Date },
    rowsMax: number,
  ): Promise<boolean>;
  /** How many unfinished jobs were moved from an old partition into today's. */
  carryStragglers(lower: Date, upper: Date, limit: number): Promise<number>;
  /** Undefined while an old partition is needed; else the snapshot in which it is not. */
  checkOutboxPartition(lower: Date, upper: Date): Promise<string | undefined>;
  dropOutboxPartition(name: string, checked: string): Promise<boolean>;
  dropInboxPartition(name: string, before: Date, rowsMax: number): Promise<boolean>;
  /** How many rows were deleted. */
  prune(what: Prunable, ageMs: number, limit: number): Promise<number>;
  pruneIdempotencyKeys(limit: number): Promise<number>;
  pruneWaiting(limit: number): Promise<number>;
  /**
   * Lets the leases of dead owners fire. Those of an owner whose lease runs, and whose lock alone is
   * missing, only where it was missing before.
   */
  fireLeases(limit: number, missingBefore: readonly string[]): Promise<FiredLeases>;
  deadWorkers(): Promise<readonly DeadWorker[]>;
  /** How many running jobs of dead workers were dispatched again; `sinceMs`: of those enqueued since. */
  redispatchOrphans(sinceMs: number | undefined, limit: number): Promise<number>;
  markSwept(workers: readonly string[]): Promise<void>;
  /** Asks for wake-up hints on this connection. */
  listen(): Promise<void>;
  notify(channel: string): Promise<void>;
  /** The server process that answers. */
  backend(): Promise<number>;
}
