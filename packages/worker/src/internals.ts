/**
 * The steps between which a worker can die, in the order of a job's way. Tests make it throw, hang
 * and exit at each of them; `test/faults/crash-matrix` is generated from this list.
 */
export const workerFailpoints = [
  "worker.beforeClaim",
  "worker.afterClaim",
  "worker.afterPark",
  "worker.afterLease",
  "worker.beforeCommit",
  "worker.afterCommit",
  "worker.beforeAck",
  "worker.afterAck",
] as const;

/** A step of {@link workerFailpoints}. */
export type WorkerFailpoint = (typeof workerFailpoints)[number];

/** Hooks for tests: no part of the public promise. */
export interface Internals {
  /** Called at each step that is reached. */
  readonly failpoint: (name: WorkerFailpoint) => void | Promise<void>;
  /** Source of jitter, in [0, 1). */
  readonly random: () => number;
}

/** What runs in production: no failpoints, real chance. */
export const noInternals: Internals = { failpoint: () => undefined, random: Math.random };
