/** What the scheduler knows of dependencies: which are open, and how many of their jobs are dispatched. */

import type { BreakerState } from "@waybill/postgres";

/**
 * Milliseconds between the end of a probe and the next one, unless the breaker moves on: the slot of a probe is
 * free before its outcome is told, and one that was cancelled or handed back has none.
 */
const probeRestMs = 5_000;

/** One dependency. */
export interface BreakerView {
  state: BreakerState;
  /** Slots of jobs that need it. */
  running: number;
  /** No other probe goes before. */
  restsUntilMs: number;
}

/** The dependencies by name; one that nobody has declared is closed. */
export class BreakerViews {
  readonly #views = new Map<string, BreakerView>();

  of(name: string): BreakerView {
    let view = this.#views.get(name);
    if (view === undefined) {
      view = { state: "closed", running: 0, restsUntilMs: 0 };
      this.#views.set(name, view);
    }
    return view;
  }

  apply(states: Readonly<Record<string, BreakerState>>): void {
    for (const name of Object.keys(states)) this.of(name);
    for (const [name, view] of this.#views) {
      const state = Object.hasOwn(states, name) ? (states[name] ?? "closed") : "closed";
      if (state !== view.state) view.restsUntilMs = 0;
      view.state = state;
    }
  }
}

/**
 * When the clock alone lets a job go that needs it: half open, one at a time goes as a probe. Undefined:
 * something else has to happen.
 */
export function letsAtMs({ state, running, restsUntilMs }: BreakerView): number | undefined {
  if (state === "closed") return 0;
  return state === "half_open" && running === 0 ? restsUntilMs : undefined;
}

/** A job that needs it has given its slot back. */
export function noteEnd(view: BreakerView, nowMs: number): void {
  view.running -= 1;
  if (view.state === "half_open") view.restsUntilMs = nowMs + probeRestMs;
}
