import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "@waybill/core";

/** The attempt that a piece of code runs for. */
export interface CurrentJob {
  readonly jobId: string;
  readonly jobName: string;
  readonly queue: string;
  readonly attempt: number;
  /** The logger of the worker that runs it: there may be several workers in a process. */
  readonly logger: Logger;
  /** Fails the attempt with what was thrown outside its promise. No effect on one that has ended. */
  readonly fail: (error: unknown) => void;
  /** True when the attempt has an outcome, which nothing changes any more. */
  readonly ended: () => boolean;
}

/** Follows each attempt through its callbacks, so that what goes wrong in one can be attributed. */
export const currentJob: AsyncLocalStorage<CurrentJob> = new AsyncLocalStorage<CurrentJob>();
