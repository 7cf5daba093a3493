import type { OutboxRow } from "@waybill/postgres";
import type { LedgerPage } from "../page-ledger.ts";

/** A job of a governed queue that waits for its turn. */
export interface WaitingJob {
  readonly id: string;
  readonly queue: string;
  /** Place in the order in which the outbox was read. */
  readonly place: number;
  /** Concurrency key; the empty text for none. */
  readonly key: string;
  readonly orderingKey: string | null;
  readonly type: string;
  readonly priority: number;
  readonly dispatch: number;
  /** The row it was read from, until the job is in the backlog or has a slot. */
  row?: OutboxRow | undefined;
  /** The page that waits for that. */
  page?: LedgerPage | undefined;
}

/** A slot: a job between its dispatch and its end. */
export interface SlotRecord extends Omit<WaitingJob, "row" | "page"> {
  /** True of the head of an ordering key that waits for its retry. */
  readonly waiting: boolean;
}

/** Jobs of one lane go in the order of their places; as backlog.lane has it. */
export function laneIdOf(
  job: Pick<WaitingJob, "orderingKey" | "priority" | "type" | "key">,
): string {
  return job.orderingKey === null
    ? `${job.priority}/${job.type}/${job.key}`
    : `=${job.orderingKey}`;
}
