/**
 * The breakers of dependencies, moved on by the relay that leads. All that decides lies in the database
 * (the counts, the clock, the state), so that a breaker survives restarts and takeovers, and one
 * statement does it; here is only when to look, and what to tell. A change raises the revision of the
 * settings, which the governor looks at.
 */

import type { Logger } from "@waybill/core";
import type { BreakerState, BreakerView, DependencyStore } from "@waybill/postgres";

/** Options of {@link Breakers}. */
export interface BreakersOptions {
  readonly store: Pick<DependencyStore, "step">;
  readonly epoch: string;
  readonly logger: Logger;
}

const lookEveryMs = 250;
/** Milliseconds until the next look while there is no dependency. */
const lookIdleMs = 2_000;

/** See the head of the file. */
export class Breakers {
  readonly #options: BreakersOptions;
  /** As they were at the last look; one that is not here was closed. */
  #states: ReadonlyMap<string, BreakerState> = new Map();

  constructor(options: BreakersOptions) {
    this.#options = options;
  }

  /** Moves the breakers on; resolves to the milliseconds until the next look. */
  async step(): Promise<number> {
    const { store, epoch } = this.#options;
    const breakers = await store.step(epoch);
    const changed = breakers.filter(
      ({ name, state }) => state !== (this.#states.get(name) ?? "closed"),
    );
    this.#states = new Map(breakers.map(({ name, state }) => [name, state]));
    for (const breaker of changed) this.#tell(breaker);
    return breakers.length > 0 ? lookEveryMs : lookIdleMs;
  }

  /** Also of what an operator did, and of breakers that a relay finds open when it begins to lead. */
  #tell({ name: dependency, state, reason, probeMs }: BreakerView): void {
    const { logger } = this.#options;
    const fields = { dependency, state, reason };
    switch (state) {
      case "open":
        logger.warn(
          { ...fields, ...(probeMs === null ? {} : { probeInMs: Math.round(probeMs) }) },
          "breaker open",
        );
        return;
      case "half_open":
        logger.info(fields, "breaker half open");
        return;
      case "closed":
        logger.info(fields, "breaker closed");
    }
  }
}
