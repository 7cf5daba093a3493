/**
 * Hands out the limits of queues to their workers. Nothing of it is remembered here but since when locks
 * of workers are missing: what was granted is in the rows, and one statement decides; why that is never
 * more than a limit is told in packages/worker/src/shares.ts.
 */

import type { FlowStore } from "@waybill/postgres";

/** Milliseconds between two rounds. */
const everyMs = 250;
/** A lock that is missing for so long, in milliseconds, is not that of a connection that is just opened again. */
const missingMs = 1_000;

/** See the head of the file. */
export class ShareGrants {
  readonly #store: Pick<FlowStore, "grant">;
  readonly #epoch: string;
  /** Since when the locks of workers whose lease runs are missing. */
  #missing: ReadonlyMap<string, number> = new Map();

  constructor(store: Pick<FlowStore, "grant">, epoch: string) {
    this.#store = store;
    this.#epoch = epoch;
  }

  /** Grants once; resolves to the milliseconds until the next time. */
  async grant(): Promise<number> {
    const nowMs = performance.now();
    const before = [...this.#missing].filter(([, sinceMs]) => nowMs - sinceMs >= missingMs);
    const { missing } = await this.#store.grant(
      this.#epoch,
      before.map(([worker]) => worker),
    );
    this.#missing = new Map(missing.map((worker) => [worker, this.#missing.get(worker) ?? nowMs]));
    return everyMs;
  }
}
