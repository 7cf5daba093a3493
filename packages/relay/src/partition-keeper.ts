/**
 * Keeps the partitions: makes them ahead of time, moves into them what the default partition caught,
 * and drops those that are past the retention and hold nothing that matters. Every step waits 100 ms
 * for its lock at most, so no producer ever queues behind it for longer.
 */

import type { Logger } from "@waybill/core";
import {
  type Partition,
  type PartitionedTable,
  type RelayStore,
  sqlStateOf,
} from "@waybill/postgres";
import {
  inboxStepMs,
  outboxStepMs,
  partitionName,
  type Stretch,
  stretchAt,
  uncovered,
} from "./partition-plan.ts";

/** Options of {@link keepPartitions}. */
export interface PartitionKeeperOptions {
  readonly store: RelayStore;
  readonly outboxRetentionMs: number;
  readonly inboxRetentionMs: number;
  readonly logger: Logger;
}

/** Rows to move while producers of that very time wait: a fraction of a second. */
const liveRowsMax = 10_000;
/** Rows to move of a time that is over, for which nobody waits. */
const pastRowsMax = 200_000;
const carryBatch = 1_000;
const keptRowsMax = 10_000;
const everyMs = 10 * 60_000;
const soonMs = 60_000;

const isBounded = (partition: Partition): partition is Partition & Stretch =>
  partition.lower !== null && partition.upper !== null;

/** A lock that could not be had is had later. */
function isLockTimeout(error: unknown): boolean {
  return sqlStateOf(error) === "55P03" || sqlStateOf(error) === "40P01";
}

class Pass {
  readonly #options: PartitionKeeperOptions;
  /** Whether something is left to do soon. */
  unfinished = false;

  constructor(options: PartitionKeeperOptions) {
    this.#options = options;
  }

  async #try(what: string, name: string, work: () => Promise<boolean>): Promise<boolean> {
    const { logger } = this.#options;
    try {
      if (await work()) {
        logger.info({ partition: name }, `partition ${what}`);
        return true;
      }
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      logger.debug({ partition: name, err: error }, "partition is in use");
    }
    this.unfinished = true;
    return false;
  }

  async create(table: PartitionedTable, stepMs: number): Promise<void> {
    const { store } = this.#options;
    const { partitions, now } = await store.partitions(table);
    const existing = partitions.filter(isBounded);
    const nowMs = now.getTime();
    const wanted = new Map<number, Stretch>();
    const want = (instantMs: number): void => {
      const stretch = stretchAt(instantMs, stepMs);
      wanted.set(stretch.lower.getTime(), stretch);
    };
    // What comes next first: it is there before anything needs it, and locks nothing for long.
    want(nowMs + stepMs);
    want(nowMs);
    const retentionMs =
      table === "outbox" ? this.#options.outboxRetentionMs : this.#options.inboxRetentionMs;
    for (const instant of await store.defaultRows(table, retentionMs)) {
      // What is older goes with the pruner.
      if (instant.getTime() > nowMs - retentionMs) want(instant.getTime());
    }
    for (const stretch of wanted.values()) {
      for (const gap of uncovered(stretch, existing)) {
        const name = partitionName(table, gap.lower);
        const rowsMax = gap.upper.getTime() > nowMs ? liveRowsMax : pastRowsMax;
        await this.#try("created", name, () =>
          store.createPartition(table, { name, ...gap }, rowsMax),
        );
      }
    }
  }

  async dropOutbox(): Promise<void> {
    const { store, outboxRetentionMs } = this.#options;
    const { partitions, now } = await store.partitions("outbox");
    const before = now.getTime() - outboxRetentionMs;
    for (const { name, lower, upper } of partitions.filter(isBounded)) {
      if (upper.getTime() > before) continue;
      for (let n = 0; n < 1_000; n += 1) {
        if ((await store.carryStragglers(lower, upper, carryBatch)) < carryBatch) break;
      }
      const checked = await store.checkOutboxPartition(lower, upper);
      if (checked === undefined) continue;
      await this.#try("dropped", name, () => store.dropOutboxPartition(name, checked));
    }
  }

  async dropInbox(): Promise<void> {
    const { store, inboxRetentionMs } = this.#options;
    const { partitions, now } = await store.partitions("inbox");
    const before = new Date(now.getTime() - inboxRetentionMs);
    for (const { name, upper } of partitions.filter(isBounded)) {
      if (upper > before) continue;
      await this.#try("dropped", name, () => store.dropInboxPartition(name, before, keptRowsMax));
    }
  }
}

/**
 * Makes and drops partitions.
 *
 * @returns milliseconds until the next pass
 */
export async function keepPartitions(options: PartitionKeeperOptions): Promise<number> {
  const pass = new Pass(options);
  await pass.create("outbox", outboxStepMs(options.outboxRetentionMs));
  await pass.create("inbox", inboxStepMs(options.inboxRetentionMs));
  await pass.dropOutbox();
  await pass.dropInbox();
  return pass.unfinished ? soonMs : everyMs;
}
