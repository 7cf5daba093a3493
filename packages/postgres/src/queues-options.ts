import type { Database } from "./executor.ts";
import type { QueueOverrides } from "./queue-record.ts";

/** Options of `createQueues`. */
export interface QueuesOptions<Tx> {
  readonly database: Database<Tx>;
  /**
   * Schema that holds Waybill's tables.
   * @default "waybill"
   */
  readonly schema?: string | undefined;
  /**
   * Who changes queues, as written to the audit log; at most 255 characters.
   * @default "api"
   */
  readonly actor?: string | undefined;
}

/** Options of an act on a queue. */
export interface QueueActOptions<Tx> {
  /** Written to the audit log; at most 1,000 characters. */
  readonly reason?: string | undefined;
  /** Who acts; the actor of `createQueues` where it is left out. */
  readonly actor?: string | undefined;
  /** Runs in this transaction of the application; in one of its own where it is left out. */
  readonly tx?: Tx | undefined;
}

/** What is paused or resumed: a queue, or one job type or concurrency key of it. */
export interface QueueTarget {
  readonly queue: string;
  /** Name of a job; not together with `key`. */
  readonly type?: string | undefined;
  /** A concurrency key, 1 to 255 bytes. */
  readonly key?: string | undefined;
}

/** A key and its tier. */
export interface TierAssignment {
  readonly queue: string;
  /** A concurrency key, 1 to 255 bytes. */
  readonly key: string;
  /** One of `keys.tiers` of the queue's settings; null for none. */
  readonly tier: string | null;
}

/**
 * Settings to change. Each replaces the whole setting of its name; null takes it away, also where code
 * declares it; what is left out stays as it is.
 */
export type QueueChange = QueueOverrides;
