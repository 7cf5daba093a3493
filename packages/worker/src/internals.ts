/** Hooks for tests: no part of the public promise. */
export interface Internals {
  /** Called at named places: `worker.afterClaim`, `worker.beforeCommit`, … */
  readonly failpoint: (name: string) => void | Promise<void>;
  /** Source of jitter, in [0, 1). */
  readonly random: () => number;
}

/** What runs in production: no failpoints, real chance. */
export const noInternals: Internals = { failpoint: () => undefined, random: Math.random };
