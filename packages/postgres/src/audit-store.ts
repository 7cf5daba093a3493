/**
 * The books of queues as the relay's auditor uses them: typed functions over the statements, each one
 * round trip. What counts as lost is decided in packages/relay/src/auditor.ts.
 */

import type { SqlConnection } from "./executor.ts";
import { runner, type StoreOptions } from "./run-statement.ts";
import { statementsFor } from "./statements.ts";

/** How far a queue is audited. Snapshots are texts, transactions and places bigints as text. */
export interface AuditPlace {
  readonly queue: string;
  /** Everything visible in it is accounted for. */
  readonly since: string;
  /** Upper end of the stretch that is being looked at; null: none. */
  readonly until: string | null;
  /** Last place of the stretch that is accounted for. */
  readonly tx: string;
  readonly seq: string;
  /** What is visible in it and was not claimed is lost, without further proof; null: nothing. */
  readonly lost: string | null;
  /** When that was said, by the database's clock, in milliseconds since 1970. */
  readonly lostAtMs: number | null;
  readonly lostWhy: string | null;
}

/** What the auditor begins a pass with. */
export interface AuditBooks {
  /** Everything visible in it is published; null: nothing yet. */
  readonly snapshot: string | null;
  /** Exchange that marks the broker; null: none was declared yet. */
  readonly marker: string | null;
  /** The database's clock, in milliseconds since 1970. */
  readonly nowMs: number;
  readonly places: readonly AuditPlace[];
}

/** A row that nothing but its message brings forward. */
export interface UnclaimedJob {
  readonly id: string;
  readonly queue: string;
  readonly tx: string;
  readonly seq: string;
}

/** A page of a stretch. */
export interface UnclaimedPage {
  /** Rows that were looked at. */
  readonly scanned: number;
  /** Place of the last; null: there was none. */
  readonly tx: string | null;
  readonly seq: string | null;
  readonly jobs: readonly UnclaimedJob[];
}

/** A slot whose message no worker has claimed. */
export interface IdleSlot {
  readonly id: string;
  readonly queue: string;
  /** By the database's clock, in milliseconds since 1970. */
  readonly dispatchedAtMs: number;
}

/** A queue and a number of its jobs. */
export interface QueueJobs {
  readonly queue: string;
  readonly jobs: number;
}

/** See {@link createAuditStore}. */
export interface AuditStore {
  /** Undefined: another relay has taken the term. */
  read(epoch: string): Promise<AuditBooks | undefined>;
  /** Remembers places; `lost` of each as it was read, `cleared` where all of it was dispatched again. */
  save(
    epoch: string,
    places: readonly (AuditPlace & { readonly cleared: boolean })[],
  ): Promise<void>;
  /** The next page of a stretch that these queues have in common. */
  unclaimed(
    queues: readonly string[],
    stretch: {
      readonly since: string;
      readonly until: string;
      readonly tx: string;
      readonly seq: string;
    },
    rowsMax: number,
  ): Promise<UnclaimedPage>;
  /** True where a job that was published after the snapshot has been claimed. */
  isOvertaken(queue: string, snapshot: string): Promise<boolean>;
  /** Slots that are so many milliseconds old at least. */
  idleSlots(ageMs: number): Promise<readonly IdleSlot[]>;
  /** How many of these jobs are dispatched again, by queue. */
  dispatchLost(
    epoch: string,
    jobs: readonly { readonly id: string; readonly queue: string }[],
    why: string,
  ): Promise<readonly QueueJobs[]>;
  /** Takes all that no worker has claimed for lost, because the marker is gone. */
  takeForLost(epoch: string, why: string): Promise<void>;
  setMarker(epoch: string, marker: string): Promise<void>;
}

/**
 * The auditor's statements over the relay's connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createAuditStore(
  connection: SqlConnection,
  options: StoreOptions = {},
): AuditStore {
  const sql = statementsFor(options.schema);
  const run = runner(connection, options);
  return {
    async read(epoch) {
      const { rows, first } = await run<
        Omit<AuditBooks, "places"> & Omit<AuditPlace, "queue"> & { readonly queue: string | null }
      >(sql.read_audit, [epoch]);
      if (first === undefined) return undefined;
      const { snapshot, marker, nowMs } = first;
      const places = rows.flatMap(({ queue, since, until, tx, seq, lost, lostAtMs, lostWhy }) =>
        queue === null ? [] : [{ queue, since, until, tx, seq, lost, lostAtMs, lostWhy }],
      );
      return { snapshot, marker, nowMs, places };
    },
    async save(epoch, places) {
      await run(sql.save_audit, [epoch, JSON.stringify(places)]);
    },
    async unclaimed(queues, { since, until, tx, seq }, rowsMax) {
      const { rows } = await run<{
        scanned: number | null;
        tx: string | null;
        seq: string | null;
        id: string | null;
        queue: string;
      }>(sql.read_unclaimed, [JSON.stringify(queues), since, until, tx, seq, rowsMax]);
      const page = rows.find(({ scanned }) => scanned !== null);
      return {
        scanned: page?.scanned ?? 0,
        tx: page?.tx ?? null,
        seq: page?.seq ?? null,
        jobs: rows.flatMap(({ id, queue, tx: at, seq: place }) =>
          id === null || at === null || place === null ? [] : [{ id, queue, tx: at, seq: place }],
        ),
      };
    },
    isOvertaken: async (queue, snapshot) =>
      (await run<{ overtaken: boolean }>(sql.check_overtaken, [queue, snapshot])).first
        ?.overtaken === true,
    idleSlots: async (ageMs) => (await run<IdleSlot>(sql.read_idle_slots, [ageMs])).rows,
    dispatchLost: async (epoch, jobs, why) =>
      (
        await run<QueueJobs>(sql.dispatch_lost, [
          epoch,
          JSON.stringify(jobs.map(({ id, queue }) => ({ i: id, q: queue }))),
          why,
        ])
      ).rows,
    async takeForLost(epoch, why) {
      await run(sql.take_for_lost, [epoch, "", "relay", why]);
    },
    async setMarker(epoch, marker) {
      await run(sql.set_marker, [epoch, marker]);
    },
  };
}
