/** Watches, from another thread, whether the main thread's event loop turns. */

import {
  type BlockedPlace,
  type BlockedReport,
  type Pulse,
  sharedNow,
} from "./heartbeat-protocol.ts";
import type { Inspection } from "./main-thread-inspection.ts";

/** What the database's column holds. */
const blockedMsMax = 2 ** 31 - 1;

/** Options of {@link LoopWatch}. */
export interface LoopWatchOptions {
  readonly pulse: Pulse;
  /** Silence after which the loop counts as blocked, in milliseconds. */
  readonly warnMs: number;
  /** Finds out what blocks it, where that is possible; see `inspectMainThread`. */
  readonly inspect: (
    isSame: () => boolean,
    onFound: (place: BlockedPlace) => void,
  ) => Inspection | undefined;
  /** It is blocked, or it is known what blocks it. */
  readonly onBlocked: () => void;
  /** It turns again. */
  readonly onFree: (report: BlockedReport) => void;
}

/** See the head of the file. */
export class LoopWatch {
  readonly #options: LoopWatchOptions;
  #turns = 0;
  #turnedAt = sharedNow();
  #lookedAt = sharedNow();
  #place: BlockedPlace | undefined;
  #inspection: Inspection | undefined;

  constructor(options: LoopWatchOptions) {
    this.#options = options;
  }

  /** How long the loop has been blocked; undefined: it turns. */
  get blockedMs(): number | undefined {
    return this.#place === undefined
      ? undefined
      : Math.min(blockedMsMax, Math.round(sharedNow() - this.#turnedAt));
  }

  /** What is known of where it is blocked. */
  get place(): BlockedPlace {
    return this.#place ?? {};
  }

  /** To be called a few times in `warnMs`. */
  look(): void {
    const { pulse, warnMs, onBlocked, onFree } = this.#options;
    const now = sharedNow();
    const turns = pulse.get("turns");
    // Who was frozen with the whole process, or got no processor, cannot tell who else was silent.
    const wasAsleep = now - this.#lookedAt >= warnMs;
    this.#lookedAt = now;
    const { blockedMs, place } = this;
    if (turns !== this.#turns || (wasAsleep && blockedMs === undefined)) {
      this.#turns = turns;
      this.#turnedAt = now;
      this.#place = undefined;
      this.end();
      if (blockedMs !== undefined) onFree({ blockedMs, ...place });
      return;
    }
    if (blockedMs !== undefined || now - this.#turnedAt < warnMs) return;
    this.#place = {};
    onBlocked();
    this.#inspect();
  }

  /** Leaves the main thread alone. */
  end(): void {
    this.#inspection?.end();
    this.#inspection = undefined;
  }

  #inspect(): void {
    const { pulse, inspect, onBlocked } = this.#options;
    if (pulse.get("debugged") === 1) return;
    const turns = this.#turns;
    const isSame = (): boolean => pulse.get("turns") === turns && this.#turns === turns;
    this.#inspection = inspect(isSame, (place) => {
      if (!isSame()) return;
      this.#place = place;
      onBlocked();
    });
  }
}
