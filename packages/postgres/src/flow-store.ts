/**
 * Settings of queues and shares of their limits, as workers and relays use them: typed functions over
 * the statements, each one round trip.
 */

import type { QueueSettings } from "@waybill/core";
import type { SqlConnection } from "./executor.ts";
import { runner, type StoreOptions } from "./run-statement.ts";
import { statementsFor } from "./statements.ts";

/** What holds for one queue. */
export interface QueueFlow {
  readonly name: string;
  readonly governed: boolean;
  readonly settings: QueueSettings;
  readonly paused: boolean;
  /** Milliseconds until its tap is open; null, 0 or less: it is. */
  readonly closedMs: number | null;
}

/** A pause or closed tap of a job type or a key. */
export interface FlowGate {
  readonly queue: string;
  readonly kind: "type" | "key";
  readonly name: string;
  readonly paused: boolean;
  readonly closedMs: number | null;
}

/** What is said of some queues at one revision. */
export interface FlowNews {
  readonly queues: readonly QueueFlow[];
  readonly gates: readonly FlowGate[];
  /** Dependencies whose breaker is open. */
  readonly open: readonly string[];
}

/** A worker's share of one queue's limit. */
export interface WorkerShare {
  readonly queue: string;
  /** Null: there is no limit, or the relay has not seen the worker yet. */
  readonly granted: number | null;
  /** What the worker may be using, as it said last. */
  readonly held: number;
  /** Number of the next change of `held`; a bigint as text. */
  readonly turn: string;
}

/** What a worker knows of its queues after one look. */
export interface FlowReading {
  /** A bigint as text. */
  readonly revision: string;
  /** Undefined: the revision is the one that was known. */
  readonly news: FlowNews | undefined;
  /** Milliseconds since the last term of a relay ended; below 0 while one leads, null: none ever did. */
  readonly relayIdleMs: number | null;
  readonly shares: readonly WorkerShare[];
}

/** What a worker may be using of one queue until it hears the answer. */
export interface ShareUse {
  readonly queue: string;
  readonly turn: string;
  readonly used: number;
}

/** Declared settings of a queue as they are stored: another version of Waybill may have written them. */
export type DeclaredSettings = Readonly<Record<string, unknown>>;

/** See {@link createFlowStore}. */
export interface FlowStore {
  /** What has changed since a revision, "0" for none, and the shares of a worker. */
  read(
    worker: string | undefined,
    revision: string,
    queues: readonly string[],
  ): Promise<FlowReading>;
  /** Declared settings by queue; queues without any are left out. */
  declared(queues: readonly string[]): Promise<ReadonlyMap<string, DeclaredSettings>>;
  /** Declares settings; false: they are not as they were read any more. */
  declare(queue: string, settings: DeclaredSettings, read: DeclaredSettings): Promise<boolean>;
  /** Says which events each of these subscriptions receives. */
  subscribe(
    subscriptions: readonly { readonly queue: string; readonly events: readonly string[] }[],
  ): Promise<void>;
  /** Tells which queues a worker consumes, and what it still runs of them. */
  join(
    worker: string,
    queues: readonly {
      readonly queue: string;
      readonly concurrency: number;
      readonly held: number;
    }[],
  ): Promise<void>;
  /** Tells what a worker may be using; queues whose turn has passed are left out of the answer. */
  hold(
    worker: string,
    uses: readonly ShareUse[],
  ): Promise<readonly (WorkerShare & { readonly free: boolean })[]>;
  /**
   * Hands out the limits of all queues, unless the term is over.
   *
   * @param missingBefore workers whose lock has been missing for too long
   * @returns how many shares have changed, and the workers whose lock is missing
   */
  grant(
    epoch: string,
    missingBefore: readonly string[],
  ): Promise<{ readonly changed: number; readonly missing: readonly string[] }>;
}

interface FlowRow {
  readonly revision: string;
  readonly news: string | null;
  readonly relay: string | null;
  readonly shares: string;
}

/**
 * Queues' settings and shares over one of Waybill's own connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createFlowStore(connection: SqlConnection, options: StoreOptions = {}): FlowStore {
  const sql = statementsFor(options.schema);
  const run = runner(connection, options);
  return {
    async read(worker, revision, queues) {
      const { first: row } = await run<FlowRow>(sql.read_flow, [
        worker ?? null,
        revision,
        JSON.stringify(queues),
      ]);
      if (row === undefined) throw new Error("The table waybill.flow has lost its row.");
      return {
        revision: row.revision,
        news: row.news === null ? undefined : (JSON.parse(row.news) as FlowNews),
        relayIdleMs: row.relay === null ? null : Number(row.relay),
        shares: JSON.parse(row.shares) as readonly WorkerShare[],
      };
    },
    async declared(queues) {
      const { rows } = await run<{ name: string; declared: string }>(sql.read_declared, [
        JSON.stringify(queues),
      ]);
      return new Map(
        rows.map(({ name, declared }) => [name, JSON.parse(declared) as DeclaredSettings]),
      );
    },
    declare: async (queue, settings, read) =>
      (await run(sql.declare_queue, [queue, JSON.stringify(settings), JSON.stringify(read)])).rows
        .length > 0,
    async subscribe(subscriptions) {
      await run(sql.declare_subscriptions, [JSON.stringify(subscriptions)]);
    },
    async join(worker, queues) {
      await run(sql.join_queues, [worker, JSON.stringify(queues)]);
    },
    hold: async (worker, uses) =>
      (await run<WorkerShare & { free: boolean }>(sql.hold_shares, [worker, JSON.stringify(uses)]))
        .rows,
    async grant(epoch, missingBefore) {
      const { first: row } = await run<{ changed: number; missing: string }>(sql.grant_shares, [
        epoch,
        JSON.stringify(missingBefore),
      ]);
      return {
        changed: row?.changed ?? 0,
        missing: JSON.parse(row?.missing ?? "[]") as readonly string[],
      };
    },
  };
}
