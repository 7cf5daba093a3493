/** What the scheduler knows of dependencies: which are open, and how many of their jobs are dispatched. */

/** State of a dependency's breaker. */
export type BreakerState = "closed" | "open" | "half_open";

/** One dependency. */
export interface BreakerView {
  state: BreakerState;
  /** Slots of jobs that need it. */
  running: number;
}

/** The dependencies by name; one that nobody has declared is closed. */
export class BreakerViews {
  readonly #views = new Map<string, BreakerView>();

  of(name: string): BreakerView {
    let view = this.#views.get(name);
    if (view === undefined) {
      view = { state: "closed", running: 0 };
      this.#views.set(name, view);
    }
    return view;
  }

  apply(states: Readonly<Record<string, BreakerState>>): void {
    for (const [name, view] of this.#views) view.state = states[name] ?? "closed";
    for (const [name, state] of Object.entries(states)) this.of(name).state = state;
  }
}

/** True where a job may go that needs it: half open, one at a time goes as a probe. */
export function lets({ state, running }: BreakerView): boolean {
  return state === "closed" || (state === "half_open" && running === 0);
}
