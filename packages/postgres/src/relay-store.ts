/**
 * The outbox, the timers and the partitions as the relay uses them: typed functions over the
 * statements, each one round trip. What to read next is decided in packages/relay.
 */

import type { SqlConnection } from "./executor.ts";
import type {
  CursorRecord,
  DeadWorker,
  OutboxPage,
  OutboxRow,
  PageLimits,
  Partition,
  Prunable,
  RelayStore,
  StoredCursor,
} from "./relay-records.ts";
import { type Run, runner, type StoreOptions } from "./run-statement.ts";
import { type Statement, type Statements, statementsFor } from "./statements.ts";

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
  | "origin"
  | "rescan"
> {
  return {
    ensureRelay: async () => (await run(sql.ensure_relay)).rows.length > 0,
    takeTerm: async (holder, name, leaseMs) =>
      (await run<{ epoch: string }>(sql.take_term, [holder, name, leaseMs])).first?.epoch,
    async watchTerm() {
      const { first } = await run<{ holder: string | null; remaining: number }>(sql.watch_term);
      return { holder: first?.holder ?? null, remainingMs: first?.remaining ?? 0 };
    },
    renewTerm: async (epoch, leaseMs) =>
      (await run(sql.renew_term, [epoch, leaseMs])).rows.length > 0,
    async releaseTerm(epoch) {
      await run(sql.release_term, [epoch]);
    },
    readCursor: async (epoch) => (await run<CursorRecord>(sql.read_cursor, [epoch])).first,
    saveCursor: async (epoch, cursor) =>
      (await run(sql.save_cursor, [epoch, ...cursorValues(cursor)])).rows.length > 0,
    async markOrigin(epoch) {
      await run(sql.mark_origin, [epoch]);
    },
    origin: async () => (await run<{ origin: string }>(sql.read_origin)).first?.origin,
    async rescan(epoch, snapshotTrusted, why) {
      const { first } = await run<{ rows: string }>(sql.rescan_outbox, [
        epoch,
        snapshotTrusted,
        why,
      ]);
      return first === undefined ? undefined : Number(first.rows);
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
    nextTimerMs: async () => (await run<{ delay: number }>(sql.next_timer)).first?.delay,
    holdTimer: async (detail) => (await run<{ id: string }>(sql.hold_timer, [detail])).first?.id,
  };
}

function partitionStatements(
  run: Run,
  sql: Statements,
): Pick<
  RelayStore,
  | "partitions"
  | "defaultRows"
  | "createPartition"
  | "carryStragglers"
  | "checkOutboxPartition"
  | "dropOutboxPartition"
  | "dropInboxPartition"
> {
  const done = async (statement: Statement, values: readonly unknown[]): Promise<boolean> =>
    (await run<{ done: boolean }>(statement, values)).first?.done === true;
  return {
    async partitions(table) {
      const { rows, first } = await run<Partition & { now: Date }>(
        table === "outbox" ? sql.list_outbox_partitions : sql.list_inbox_partitions,
      );
      return { partitions: rows, now: first?.now ?? new Date() };
    },
    async defaultRows(table, withinMs) {
      const { rows } =
        table === "outbox"
          ? await run<{ day: Date }>(sql.list_default_outbox)
          : await run<{ day: Date }>(sql.list_default_inbox, [withinMs]);
      return rows.map(({ day }) => day);
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
      const { first } = await run<{ snapshot: string; needed: boolean }>(
        sql.check_outbox_partition,
        [lower, upper],
      );
      return first?.needed === false ? first.snapshot : undefined;
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
  options: StoreOptions = {},
): RelayStore {
  const sql = statementsFor(options.schema);
  const run = runner(connection, options);
  const prunes: Readonly<Record<Prunable, Statement>> = {
    failures: sql.prune_failures,
    results: sql.prune_results,
    dead_letters: sql.prune_dead_letters,
    checkpoints: sql.prune_checkpoints,
    progress: sql.prune_progress,
    watches: sql.prune_watches,
    audit_log: sql.prune_audit_log,
    workers: sql.prune_workers,
    unheard_events: sql.prune_unheard_events,
    dependency_events: sql.prune_dependency_events,
    inbox_default: sql.prune_inbox_default,
    outbox_default: sql.prune_outbox_default,
  };
  return {
    ...termStatements(run, sql),
    ...readStatements(run, sql),
    ...timerStatements(run, sql),
    ...partitionStatements(run, sql),
    prune: async (what, ageMs, limit) => (await run(prunes[what], [ageMs, limit])).count,
    pruneIdempotencyKeys: async (limit) => (await run(sql.prune_idempotency_keys, [limit])).count,
    pruneWaiting: async (limit) => (await run(sql.prune_waiting, [limit])).count,
    async fireLeases(limit, missingBefore) {
      const { rows } = await run<{ owner: string; jobs: number; runs: boolean }>(sql.fire_leases, [
        limit,
        JSON.stringify(missingBefore),
      ]);
      return {
        jobs: rows.reduce((sum, { jobs }) => sum + jobs, 0),
        missing: rows.filter(({ runs }) => runs).map(({ owner }) => owner),
      };
    },
    deadWorkers: async () => (await run<DeadWorker>(sql.read_dead_workers)).rows,
    redispatchOrphans: async (sinceMs, limit) =>
      (await run(sql.redispatch_orphans, [sinceMs ?? null, limit])).rows.length,
    async markSwept(workers) {
      await run(sql.mark_swept, [[...workers]]);
    },
    async listen() {
      // A DO block cannot be prepared with parameters; it has none.
      await connection.query({ text: sql.listen_wake.text });
    },
    async notify(channel) {
      await run(sql.notify_wake, [channel]);
    },
    backend: async () => Number((await run<{ pid: number }>(sql.get_backend)).first?.pid),
  };
}
