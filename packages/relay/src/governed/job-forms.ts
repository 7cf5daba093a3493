/** Jobs of governed queues in the forms in which they are read, written and named. */

import { waybillHeaders } from "@waybill/core";
import type { OutboxRow, ReadJob } from "@waybill/postgres";
import type { LedgerPage } from "../page-ledger.ts";
import type { WaitingJob } from "./waiting-job.ts";

/** What names a job. */
export interface Ref {
  readonly id: string;
  readonly queue: string;
}

/** A row of the outbox as a job that waits, at this place. */
export const readJobOf = (row: OutboxRow, page: LedgerPage, place: number): WaitingJob => ({
  id: row.id,
  queue: row.queue ?? "",
  place,
  key: row.headers?.[waybillHeaders.concurrencyKey] ?? "",
  orderingKey: row.ordering_key,
  type: row.type,
  priority: row.priority ?? 0,
  dispatch: row.dispatch,
  row,
  page,
});

/** As it is written, to a slot or to the backlog. */
export const recordOf = (job: WaitingJob, slot: boolean): ReadJob => ({
  ...job,
  enqueuedAtMs: job.row?.enqueued_at.getTime() ?? Date.now(),
  slot,
});

/** One of its dispatches. */
export const refOf = (
  of: Pick<OutboxRow, "id" | "queue" | "dispatch">,
): Ref & { readonly dispatch: number } => ({
  id: of.id,
  queue: of.queue ?? "",
  dispatch: of.dispatch,
});

/** Names a job within maps. */
export const refText = ({ id, queue }: Pick<OutboxRow, "id" | "queue">): string =>
  `${queue ?? ""}\n${id}`;

/** Names one of its dispatches within maps. */
export const dispatchText = (of: Pick<OutboxRow, "id" | "queue" | "dispatch">): string =>
  `${refText(of)}\n${of.dispatch}`;
