/** What the relay's governor reads and writes: slots, backlog, settings. */

import type { BreakerState } from "./dependency-record.ts";
import type { SqlConnection } from "./executor.ts";
import type { FlowGate, QueueFlow } from "./flow-store.ts";
import type { OutboxRow } from "./relay-records.ts";
import { runner, type StoreOptions } from "./run-statement.ts";
import { statementsFor } from "./statements.ts";

/** What is said of one type or key of a queue. */
export interface GateRecord extends FlowGate {
  readonly tier: string | null;
}

/** Settings of all queues, as of one revision. */
export interface Governance {
  readonly revision: string;
  /** Identity of the schema. */
  readonly flow: string;
  readonly snapshot: string;
  readonly queues: readonly QueueFlow[];
  readonly gates: readonly GateRecord[];
  readonly dependencies: Readonly<Record<string, BreakerState>>;
}

/** A row of the backlog. */
export interface BacklogRow {
  readonly id: string;
  readonly queue: string;
  readonly place: string;
  readonly key: string;
  readonly ordering_key: string | null;
  readonly type: string;
  readonly priority: number;
  readonly dispatch: number;
}

/** A row of the slots. */
export interface SlotRow extends BacklogRow {
  readonly waiting: boolean;
}

/** News of slots and backlog. */
export interface FreedRow {
  readonly n: string;
  readonly queue: string;
  readonly ended: readonly string[];
  readonly waiting: readonly string[];
  readonly changed: readonly string[];
  readonly run_ms: number;
}

/** Names a job with a dispatch. */
export interface DispatchRef {
  readonly id: string;
  readonly queue: string;
  readonly dispatch: number;
}

/** A row that was read from the outbox. */
export interface ReadJob extends DispatchRef {
  readonly place: number;
  readonly key: string;
  readonly orderingKey: string | null;
  readonly type: string;
  readonly priority: number;
  readonly enqueuedAtMs: number;
  /** True: it gets a slot; false: it goes to the backlog. */
  readonly slot: boolean;
}

/** One round, all or nothing. */
export interface Round {
  readonly read: readonly ReadJob[];
  /** Jobs of the backlog that get a slot. */
  readonly taken: readonly { readonly id: string; readonly queue: string }[];
  /** Jobs that have a slot and are dispatched again. */
  readonly renewed: readonly DispatchRef[];
  /** Jobs that the broker did not take. */
  readonly refused: readonly DispatchRef[];
}

/** What became of a round. */
export interface RoundResult {
  /** False: another relay has the term. */
  readonly held: boolean;
  /** False: the settings have changed. In both cases nothing was written. */
  readonly current: boolean;
  /** What is to be published of `taken` and `renewed`. */
  readonly rows: readonly OutboxRow[];
}

/** What the living workers of a queue can run. */
export interface QueueCapacity {
  readonly queue: string;
  readonly workers: number;
  /** Jobs at a time, at most. */
  readonly capacity: number;
}

/** See {@link createGovernorStore}. */
export interface GovernorStore {
  governance(): Promise<Governance>;
  round(epoch: string, revision: string, round: Round): Promise<RoundResult>;
  /** Takes the news behind a number. */
  freed(epoch: string, after: string): Promise<readonly FreedRow[]>;
  slots(): Promise<readonly SlotRow[]>;
  lanes(rowsMax: number): Promise<readonly BacklogRow[]>;
  /** So many rows of each lane, behind a place. */
  lane(
    lanes: readonly {
      readonly queue: string;
      readonly lane: string;
      readonly after: number;
      readonly rows: number;
    }[],
  ): Promise<readonly BacklogRow[]>;
  waitingJobs(
    jobs: readonly { readonly id: string; readonly queue: string }[],
  ): Promise<readonly BacklogRow[]>;
  /** Which of these a former relay has read before. */
  knownJobs(jobs: readonly DispatchRef[]): Promise<readonly DispatchRef[]>;
  /** Which of these a worker has claimed, and how long ago in milliseconds. */
  startedJobs(
    jobs: readonly DispatchRef[],
  ): Promise<readonly { readonly id: string; readonly queue: string; readonly ago_ms: number }[]>;
  unclaimedSlots(): Promise<readonly OutboxRow[]>;
  /** Gives back slots of jobs that have ended; how many. */
  healSlots(): Promise<number>;
  /** What the living workers of each queue can run; those that drain do not count. */
  capacity(): Promise<readonly QueueCapacity[]>;
}

type RoundRow = OutboxRow & { readonly held: boolean | null; readonly current: boolean | null };

/**
 * The governor's statements over one of the relay's own connections. Errors of the driver pass through.
 *
 * @throws NameError for a schema outside the rules of names
 */
export function createGovernorStore(
  connection: SqlConnection,
  options: StoreOptions = {},
): GovernorStore {
  const sql = statementsFor(options.schema);
  const run = runner(connection, options);
  return {
    async governance() {
      const { first } = await run<
        Readonly<
          Record<"revision" | "flow" | "snapshot" | "queues" | "gates" | "dependencies", string>
        >
      >(sql.read_governance);
      if (first === undefined) throw new Error("waybill.flow has no row; run waybill migrate.");
      return {
        revision: first.revision,
        flow: first.flow,
        snapshot: first.snapshot,
        queues: JSON.parse(first.queues) as Governance["queues"],
        gates: JSON.parse(first.gates) as Governance["gates"],
        dependencies: JSON.parse(first.dependencies) as Governance["dependencies"],
      };
    },
    async round(epoch, revision, { read, taken, renewed, refused }) {
      const { rows } = await run<RoundRow>(sql.dispatch_round, [
        epoch,
        revision,
        JSON.stringify(read.map(readColumns)),
        JSON.stringify(taken.map(({ id, queue }) => ({ i: id, q: queue }))),
        JSON.stringify(renewed.map(dispatchColumns)),
        JSON.stringify(refused.map(dispatchColumns)),
      ]);
      const state = rows.find((row) => row.held !== null);
      return {
        held: state?.held === true,
        current: state?.current === true,
        rows: rows.filter((row) => row.held === null),
      };
    },
    freed: async (epoch, after) => (await run<FreedRow>(sql.read_freed, [epoch, after])).rows,
    slots: async () => (await run<SlotRow>(sql.read_slots)).rows,
    lanes: async (rowsMax) => (await run<BacklogRow>(sql.read_lanes, [rowsMax])).rows,
    lane: async (lanes) => (await run<BacklogRow>(sql.read_lane, [JSON.stringify(lanes)])).rows,
    waitingJobs: async (jobs) =>
      (await run<BacklogRow>(sql.read_waiting_jobs, [JSON.stringify(jobs)])).rows,
    knownJobs: async (jobs) =>
      (await run<DispatchRef>(sql.read_known_jobs, [JSON.stringify(jobs)])).rows,
    startedJobs: async (jobs) =>
      (
        await run<{ id: string; queue: string; ago_ms: number }>(sql.read_started_jobs, [
          JSON.stringify(jobs.map(dispatchColumns)),
        ])
      ).rows,
    unclaimedSlots: async () => (await run<OutboxRow>(sql.read_unclaimed_slots)).rows,
    async healSlots() {
      const { rows } = await run<{ slots: number }>(sql.heal_slots);
      return rows.reduce((sum, { slots }) => sum + slots, 0);
    },
    capacity: async () => (await run<QueueCapacity>(sql.read_capacity)).rows,
  };
}

const dispatchColumns = ({ id, queue, dispatch }: DispatchRef): object => ({
  i: id,
  q: queue,
  d: dispatch,
});

/** Short names: a round may carry a thousand rows. */
const readColumns = (job: ReadJob): object => ({
  i: job.id,
  q: job.queue,
  n: job.place,
  k: job.key,
  o: job.orderingKey,
  t: job.type,
  p: job.priority,
  d: job.dispatch,
  e: job.enqueuedAtMs,
  s: job.slot,
});
