/**
 * The books of all queues, for people: how many jobs there are and what brings each forward. The relay's
 * auditor keeps them in balance; see packages/relay/src/auditor.ts.
 */

import { actOptionRules, anything, checkOptions, optional, textRule } from "./check-options.ts";
import { type OperatorActOptions, operatorOf, type OperatorOptions } from "./operator.ts";

/** Options of `createAudit`. */
export type AuditOptions<Tx> = OperatorOptions<Tx>;

/** Jobs that wait in the database, by why. */
export interface WaitingJobs {
  /** Written, and not published yet. */
  readonly unpublished: number;
  /** Until a time that their producer asked for. */
  readonly delay: number;
  /** For their next attempt. */
  readonly retry: number;
  /** Put aside: what no worker knows, what the broker refused, copies of running jobs. */
  readonly parked: number;
  /** Messages of jobs that this database does not know; until an operator releases them. */
  readonly orphan: number;
  /** Lost by the broker; due to be dispatched again. */
  readonly lost: number;
  /** For their turn in a governed queue. */
  readonly backlog: number;
}

/** Jobs on their way. */
export interface JobsInFlight {
  /** At the broker, unclaimed. */
  readonly published: number;
  /** At the broker in a slot of a governed queue, unclaimed. */
  readonly dispatched: number;
  readonly running: number;
  /** Their worker has died, and another one takes them over. */
  readonly takeover: number;
  /** Foreign messages that were handed back to the broker. */
  readonly foreign: number;
}

/** Jobs that have ended. */
export interface EndedJobs {
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** The books of one queue or subscription. */
export interface QueueBooks {
  readonly queue: string;
  /** All jobs that the database knows: the sum of all others. */
  readonly committed: number;
  readonly waiting: WaitingJobs;
  readonly inFlight: JobsInFlight;
  readonly ended: EndedJobs;
  /** Jobs that nothing brings forward. */
  readonly unaccounted: number;
  /** True where the relay's auditor looks after it: a worker of this database consumes it. */
  readonly audited: boolean;
  /** Lost jobs that were dispatched again, ever. */
  readonly dispatchedAgain: number;
}

/** What {@link createAudit} makes. */
export interface Audit<Tx> {
  /** The books of all queues, or of one, by name. Reads the keys of every job there is. */
  books(filter?: {
    readonly queue?: string | undefined;
    readonly tx?: Tx | undefined;
  }): Promise<readonly QueueBooks[]>;
  /**
   * Takes everything for lost that was published and that no worker has claimed, of these queues or of
   * all: the relay that leads dispatches it again within seconds. What the broker has after all comes
   * twice, and the inbox recognises it.
   *
   * @returns the queues that this is about; none where no relay has ever published, or no worker of this
   * database has consumed any of them
   */
  reconcile(
    selector?: { readonly queues?: readonly string[] | undefined },
    act?: OperatorActOptions<Tx>,
  ): Promise<readonly string[]>;
}

type Counts = Readonly<Record<string, number>>;

function booksOf(queue: string, counts: Counts): QueueBooks {
  const of = (category: string): number => counts[category] ?? 0;
  const { "": dispatchedAgain, ...jobs } = counts;
  return {
    queue,
    committed: Object.values(jobs).reduce((sum, count) => sum + count, 0),
    waiting: {
      unpublished: of("unpublished"),
      delay: of("delay"),
      retry: of("retry"),
      parked: of("parked"),
      orphan: of("orphan"),
      lost: of("lost"),
      backlog: of("backlog"),
    },
    inFlight: {
      published: of("published"),
      dispatched: of("dispatched"),
      running: of("running"),
      takeover: of("takeover"),
      foreign: of("foreign"),
    },
    ended: { succeeded: of("succeeded"), failed: of("failed"), cancelled: of("cancelled") },
    unaccounted: of("unaccounted"),
    audited: dispatchedAgain !== undefined,
    dispatchedAgain: dispatchedAgain ?? 0,
  };
}

/**
 * Makes the reader of the books.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 */
export function createAudit<Tx>(options: AuditOptions<Tx>): Audit<Tx> {
  const { statements, within, actor: defaultActor } = operatorOf("createAudit", options);
  return {
    async books(filter = {}) {
      checkOptions("audit.books", filter, { queue: optional(textRule(63)), tx: anything });
      const rows = await within(filter.tx, (run) =>
        run(statements.count_books, [filter.queue ?? ""]),
      );
      const byQueue = new Map<string, Record<string, number>>();
      for (const row of rows) {
        const queue = String(row["queue"]);
        const counts = byQueue.get(queue) ?? {};
        counts[String(row["category"])] = Number(row["jobs"]);
        byQueue.set(queue, counts);
      }
      return [...byQueue].map(([queue, counts]) => booksOf(queue, counts));
    },

    async reconcile(selector = {}, act = {}) {
      checkOptions("audit.reconcile", selector, { queues: anything });
      checkOptions("audit.reconcile", act, actOptionRules);
      const { actor = defaultActor, reason, tx } = act;
      const queues = selector.queues === undefined ? "" : JSON.stringify(selector.queues);
      const why = reason ?? `${actor} has taken it for lost`;
      const rows = await within(tx, (run) =>
        run(statements.take_for_lost, ["", queues, actor, why]),
      );
      return rows.map((row) => String(row["queue"]));
    },
  };
}
