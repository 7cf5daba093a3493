import { AsyncLocalStorage } from "node:async_hooks";

/** The attempt that a piece of code runs for. */
export interface CurrentJob {
  readonly jobId: string;
  readonly jobName: string;
  readonly queue: string;
  readonly attempt: number;
  /** Fails the attempt with what was thrown outside its promise. */
  readonly fail: (error: unknown) => void;
}

/** Follows each attempt through its callbacks, so that what goes wrong in one can be attributed. */
export const currentJob = new AsyncLocalStorage<CurrentJob>();
