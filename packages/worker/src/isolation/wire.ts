/** What passes between the worker and a thread. */

import type { MessagePort } from "node:worker_threads";
import type { ErrorWire } from "./error-wire.ts";
import type { IsolatedInput } from "./isolated-job.ts";

/** What a thread is for, fixed when it starts: no job can name another module. */
export interface ThreadData {
  readonly module: string;
  readonly exportName: string;
  readonly jobName: string;
  /** False where the definition has no result: what the handler returns is not looked at. */
  readonly wantsResult: boolean;
}

/** One job, to a thread. */
export interface ThreadTask {
  readonly job: Omit<IsolatedInput, "signal" | "reportProgress">;
  /** The thread's end of the port on which the messages below travel. */
  readonly port: MessagePort;
}

/** To a running job: its signal has aborted. */
export interface AbortMessage {
  readonly reason: ErrorWire;
}

/** From a running job. After `broken` the thread is of no use any more, and answers no task. */
export type ThreadMessage =
  | { readonly kind: "progress"; readonly report: object }
  | { readonly kind: "broken"; readonly error: ErrorWire };

/** How a job ended. `reason`: it threw the very reason of its signal. */
export type ThreadOutcome =
  | { readonly kind: "returned"; readonly text: string | undefined }
  | { readonly kind: "threw"; readonly error: ErrorWire }
  | { readonly kind: "reason" };
