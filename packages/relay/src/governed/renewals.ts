import type { GovernorStore, OutboxRow } from "@waybill/postgres";
import { dispatchText, refOf, refText } from "./job-forms.ts";
import type { WaitingJob } from "./waiting-job.ts";

/** A job whose slot was not free to be published again. */
export interface Unrenewed {
  readonly job: WaitingJob;
  /** `held`: somebody's transaction has it just now. */
  readonly slot: "gone" | "waiting" | "held";
  /** True where this dispatch has been claimed, or its job has ended. */
  readonly isOver: boolean;
}

/** Dispatches of these that have been read before, have been claimed, or whose jobs have ended, as dispatchText. */
export async function knownDispatches(
  store: Pick<GovernorStore, "knownJobs">,
  dispatches: readonly Pick<OutboxRow, "id" | "queue" | "dispatch">[],
): Promise<ReadonlySet<string>> {
  if (dispatches.length === 0) return new Set();
  return new Set((await store.knownJobs(dispatches.map(refOf))).map(dispatchText));
}

/** Asks what has become of those that were not sent. */
export async function askUnrenewed(
  store: Pick<GovernorStore, "slots" | "knownJobs">,
  jobs: readonly WaitingJob[],
  sent: ReadonlyMap<string, OutboxRow>,
): Promise<readonly Unrenewed[]> {
  const rest = jobs.filter((job) => !sent.has(refText(job)));
  if (rest.length === 0) return [];
  // The slots first: what ends in between is over, and has none.
  const slots = new Map((await store.slots()).map((row) => [refText(row), row.waiting]));
  const over = await knownDispatches(store, rest);
  return rest.map((job) => {
    const waits = slots.get(refText(job));
    return {
      job,
      slot: waits === undefined ? "gone" : waits ? "waiting" : "held",
      isOver: over.has(dispatchText(job)),
    };
  });
}
