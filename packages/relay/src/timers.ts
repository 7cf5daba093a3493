import type { Logger } from "@waybill/core";
import { cleanText } from "@waybill/core";
import { type RelayStore, sqlStateOf } from "@waybill/postgres";
import type { RelayFailpointHook } from "./internals.ts";

/** Options of {@link fireDueTimers}. */
export interface TimersOptions {
  readonly store: RelayStore;
  readonly idlePollMs: number;
  readonly logger: Logger;
  readonly failpoint: RelayFailpointHook;
  /** Called when rows came into the outbox. */
  readonly onFired: () => void;
}

const batch = 500;

/**
 * Moves due timers into the outbox, each in the statement that deletes it, in the order of their
 * times: none is behind one that is due later.
 *
 * @returns milliseconds until there may be more
 */
export async function fireDueTimers(options: TimersOptions): Promise<number> {
  const { store, idlePollMs, failpoint, onFired } = options;
  let fired: number;
  try {
    fired = await store.fireTimers(batch);
  } catch (error) {
    if (!isDataError(error)) throw error;
    fired = await fireOneByOne(options);
  }
  if (fired > 0) {
    failpoint("relay.afterTimers");
    onFired();
  }
  if (fired >= batch) return 0;
  const nextMs = await store.nextTimerMs();
  return Math.min(idlePollMs, Math.max(1, nextMs ?? idlePollMs));
}

/** The outbox refuses a row for what is in it. */
function isDataError(error: unknown): boolean {
  return ["22", "23"].includes((sqlStateOf(error) ?? "").slice(0, 2));
}

/** One row that the outbox refuses must not keep the others: it is found and held. */
async function fireOneByOne({ store, logger }: TimersOptions): Promise<number> {
  let fired = 0;
  for (let n = 0; n < batch; n += 1) {
    try {
      const one = await store.fireTimers(1);
      if (one === 0) break;
      fired += one;
    } catch (error) {
      if (!isDataError(error)) throw error;
      const detail = cleanText(`cannot be dispatched: ${(error as Error).message}`, 1_000);
      const jobId = await store.holdTimer(detail);
      logger.warn({ jobId, detail }, "timer held");
    }
  }
  return fired;
}
