import type { OperatorActOptions, OperatorOptions } from "./operator.ts";
import type { QueueOverrides } from "./queue-report.ts";

/** Options of `createQueues`. */
export type QueuesOptions<Tx> = OperatorOptions<Tx>;

/** Options of an act on a queue. */
export type QueueActOptions<Tx> = OperatorActOptions<Tx>;

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
