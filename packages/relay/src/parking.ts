/**
 * What becomes of a row that the broker did not take: it is copied into the timers with the reason
 * and a time, and only then the cursor may pass it.
 */

import type { OutboxRow, ParkedDispatch } from "@waybill/postgres";
import type { PublishOutcome } from "@waybill/rabbitmq";
import { retryDelayMs } from "./pause.ts";

/** Refusals after which a row waits for an operator: about a quarter of an hour. */
export const failuresMax = 20;

/** Half of a delay is random, so that the first is a second at least: a copy is told from its job by that. */
const firstDelayMs = 2_000;
const mostDelayMs = 60_000;

/** True if the broker spoke of a missing exchange, or one that this user may not write to. */
export function isMissingExchange(reason: string): boolean {
  return /NOT_FOUND|ACCESS_REFUSED/.test(reason);
}

const reasons = { returned: "unroutable", nacked: "nacked", refused: "refused" } as const;

/**
 * How to park a row. A message that can never be published waits for an operator after
 * {@link failuresMax} tries, and so does an event that nobody has ever subscribed to; what is only
 * a missing or full queue is tried again for ever.
 */
export function parkedDispatch(
  row: OutboxRow,
  outcome: PublishOutcome & { readonly status: keyof typeof reasons },
  random: () => number,
): ParkedDispatch {
  const failures = row.failures + 1;
  // Our own exchanges come back when the topology is repaired; the message is not at fault.
  const isRepairable = row.kind !== "route" && isMissingExchange(outcome.reason);
  const ends =
    (outcome.status === "refused" && !isRepairable) ||
    (outcome.status === "returned" && row.kind === "event");
  return {
    tx: row.tx,
    seq: row.seq,
    reason: isRepairable ? "unroutable" : reasons[outcome.status],
    detail: outcome.reason,
    delayMs:
      ends && failures >= failuresMax
        ? null
        : Math.round(retryDelayMs(failures, firstDelayMs, mostDelayMs, random)),
  };
}
