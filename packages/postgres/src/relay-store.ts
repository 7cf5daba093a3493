/**
 * The outbox, the timers and the partitions as the relay uses them: typed functions over the
 * statements, each one round trip. What to read next is decided in packages/relay.
 */

import type { Dispatch } from "@waybill/core";
import type { SqlConnection } from "./executor.ts";
import { type Statement, type Statements, statementsFor } from "./statements.ts";

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
export type Prunable = "failures" | "results" | "dead_letters" | "workers" | "inbox_default";

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
  /** Time of the latest death of a worker at least so long ago, as text. */
  latestDeath(agoMs: number): Promise<string | undefined>;
  /** How many running jobs of dead workers were dispatched again. */
  redispatchOrphans(runningMs: number, limit: number): Promise<number>;
  /** Asks for wake-up hints on this connection. */
  listen(): Promise<void>;
  notify(channel: string): Promise<void>;
  /** The server process that answers. */
  backend(): Promise<number>;
}

/** Options of {@link createRelayStore}. */
export interface RelayStoreOptions {
  /** @default "waybill" */
  readonly schema?: string | undefined;
  /**
   * Named prepared statements; not behind a transaction pooler.
   * @default true
   */
  readonly prepare?: boolean | undefined;
}

type Run = <T>(
  statement: Statement,
  values?: readonly unknown[],
) => Promise<{ readonly rows: readonly T[]; readonly count: number }>;

interface PageMeta {
  readonly snapshot: string | null;
  readonly scanned: number | null;
  readonly upto: string | null;
}

/** The first row describes the page; see read_window.sql. */
function pageOf(
  rows: readonly (PageMeta & OutboxRow)[],
  limits: PageLimits,
  keyed: boolean,
): OutboxPage {
  const meta = rows.find((row) => row.id === null);
  const found = rows.filter((row) => row.id !== null);
  const scanned = meta?.scanned ?? 0;
  return {
    snapshot: meta?.snapshot ?? null,
    rows: found,
    full: scanned >= limits.rows || (!keyed && found.length < scanned),
    upto: meta?.upto ?? null,
  };
}

const cursorValues = (cursor: StoredCursor): unknown[] => [
  cursor.snapshot,
  cursor.window,
  cursor.keyed,
  cursor.tx,
  cursor.seq,
  cursor.keyedFrom,
  cursor.keyedTo,
];

function termStatements(
  run: Run,
  sql: Statements,
): Pick<
  RelayStore,
  | "ensureRelay"
  | "takeTerm"
  | "watchTerm"
  | "renewTerm"
  | "releaseTerm"
  | "readCursor"
  | "saveCursor"
  | "markOrigin"
  | "rescan"
> {
  return {
    ensureRelay: async () => (await run(sql.ensure_relay)).rows.length > 0,
    takeTerm: async (holder, name, leaseMs) =>
      (await run<{ epoch: string }>(sql.take_term, [holder, name, leaseMs])).rows[0]?.epoch,
    async watchTerm() {
      const { rows } = await run<{ holder: string | null; remaining: number }>(sql.watch_term);
      return { holder: rows[0]?.holder ?? null, remainingMs: rows[0]?.remaining ?? 0 };
    },
    renewTerm: async (epoch, leaseMs) =>
      (await run(sql.renew_term, [epoch, leaseMs])).rows.length > 0,
    async releaseTerm(epoch) {
      await run(sql.release_term, [epoch]);
    },
    readCursor: async (epoch) => (await run<CursorRecord>(sql.read_cursor, [epoch])).rows[0],
    saveCursor: async (epoch, cursor) =>
      (await run(sql.save_cursor, [epoch, ...cursorValues(cursor)])).rows.length > 0,
    async markOrigin(epoch) {
      await run(sql.mark_origin, [epoch]);
    },
    async rescan(epoch, snapshotTrusted, why) {
      const { rows } = await run<{ rows: string }>(sql.rescan_outbox, [
        epoch,
        snapshotTrusted,
        why,
      ]);
      return rows[0] === undefined ? undefined : Number(rows[0].rows);
    },
  };
}

function readStatements(
  run: Run,
  sql: Statements,
): Pick<RelayStore, "readWindow" | "readLatePage" | "readFreshPage" | "readKeyedPage"> {
  const read = async (
    statement: Statement,
    values: readonly unknown[],
    limits: PageLimits,
    keyed = false,
  ): Promise<OutboxPage> => {
    const { rows } = await run<PageMeta & OutboxRow>(statement, [
      ...values,
      limits.rows,
      limits.bytes,
    ]);
    return pageOf(rows, limits, keyed);
  };
  return {
    readWindow: (after, late, limits) =>
      read(late ? sql.read_window : sql.read_fresh_window, [after], limits),
    readLatePage: (xids, tx, seq, limits) => read(sql.read_late_page, [xids, tx, seq], limits),
    readFreshPage: (until, tx, seq, limits) => read(sql.read_fresh_page, [until, tx, seq], limits),
    readKeyedPage: ({ after, until }, seq, to, limits) =>
      read(sql.read_keyed_page, [after, until, seq, to], limits, true),
  };
}

function timerStatements(
  run: Run,
  sql: Statements,
): Pick<RelayStore, "park" | "fireTimers" | "nextTimerMs" | "holdTimer"> {
  return {
    async park(epoch, rows) {
      const values = rows.map(({ tx, seq, reason, detail, delayMs }) => ({
        tx,
        seq,
        reason,
        detail,
        delay_ms: delayMs,
      }));
      await run(sql.park_dispatches, [epoch, JSON.stringify(values)]);
    },
    fireTimers: async (limit) => (await run(sql.fire_timers, [limit])).rows.length,
    nextTimerMs: async () => (await run<{ delay: number }>(sql.next_timer)).rows[0]?.delay,
    holdTimer: async (detail) => (await run<{ id: string }>(sql.hold_timer, [detail])).rows[0]?.id,
  };
}

function partitionStatements(
  run: Run,
  sql: Statements,
): Pick<
  RelayStore,
  | "partitions"
  | "createPartition"
  | "carryStragglers"
  | "checkOutboxPartition"
  | "dropOutboxPartition"
  | "dropInboxPartition"
> {
  const done = async (statement: Statement, values: readonly unknown[]): Promise<boolean> =>
    (await run<{ done: boolean }>(statement, values)).rows[0]?.done === true;
  return {
    async partitions(table) {
      const { rows } = await run<Partition & { now: Date }>(
        table === "outbox" ? sql.list_outbox_partitions : sql.list_inbox_partitions,
      );
      return { partitions: rows, now: rows[0]?.now ?? new Date() };
    },
    createPartition: (table, { name, lower, upper }, rowsMax) =>
      done(table === "outbox" ? sql.create_outbox_partition : sql.create_inbox_partition, [
        name,
        lower,
        upper,
        rowsMax,
      ]),
    carryStragglers: async (lower, upper, limit) =>
      (await run(sql.carry_stragglers, [lower, upper, limit])).rows.length,
    async checkOutboxPartition(lower, upper) {
      const { rows } = await run<{ snapshot: string; needed: boolean }>(
        sql.check_outbox_partition,
        [lower, upper],
      );
      return rows[0]?.needed === false ? rows[0].snapshot : undefined;
    },
    dropOutboxPartition: (name, checked) => done(sql.drop_outbox_partition, [name, checked]),
    dropInboxPartition: (name, before, rowsMax) =>
      done(sql.drop_inbox_partition, [name, before, rowsMax]),
  };
}

/**
 * The relay's statements over one of its own connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createRelayStore(
  connection: SqlConnection,
  options: RelayStoreOptions = {},
): RelayStore {
  const sql = statementsFor(options.schema);
  const prepare = options.prepare ?? true;
  const run: Run = async <T>({ name, text }: Statement, values: readonly unknown[] = []) => {
    const plain = { text, values: [...values] };
    const { rows, rowCount } = await connection.query(prepare ? { name, ...plain } : plain);
    return { rows: rows as readonly T[], count: rowCount ?? 0 };
  };
  const prunes: Readonly<Record<Prunable, Statement>> = {
    failures: sql.prune_failures,
    results: sql.prune_results,
    dead_letters: sql.prune_dead_letters,
    workers: sql.prune_workers,
    inbox_default: sql.prune_inbox_default,
  };
  return {
    ...termStatements(run, sql),
    ...readStatements(run, sql),
    ...timerStatements(run, sql),
    ...partitionStatements(run, sql),
    prune: async (what, ageMs, limit) => (await run(prunes[what], [ageMs, limit])).count,
    pruneIdempotencyKeys: async (limit) => (await run(sql.prune_idempotency_keys, [limit])).count,
    latestDeath: async (agoMs) =>
      (await run<{ latest: string | null }>(sql.read_deaths, [agoMs])).rows[0]?.latest ?? undefined,
    redispatchOrphans: async (runningMs, limit) =>
      (await run(sql.redispatch_orphans, [runningMs, limit])).rows.length,
    async listen() {
      // A DO block cannot be prepared with parameters; it has none.
      await connection.query({ text: sql.listen_wake.text });
    },
    async notify(channel) {
      await run(sql.notify_wake, [channel]);
    },
    backend: async () => Number((await run<{ pid: number }>(sql.get_backend)).rows[0]?.pid),
  };
}
