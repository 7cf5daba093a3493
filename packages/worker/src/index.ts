export type { BatchedJob } from "./batch/batched-job.ts";
export type { BatchHandlerOptions } from "./batch/options.ts";
export type { IsolatedJob, IsolatedRun } from "./isolation/isolated-job.ts";
export type { ThreadHandlerOptions } from "./isolation/options.ts";
export type { Context, Job, ReceivedEvent, SubscriptionOptions, TransactionalJob } from "./job.ts";
export type { AttemptEvent } from "./attempt-event.ts";
export type { OrphanPolicy, QueueOptions, WorkerBrokerOptions, WorkerOptions } from "./options.ts";
export type { Progress } from "./progress.ts";
export type { RecycleOptions } from "./recycle.ts";
export {
  type Rehearsal,
  type RehearsalInput,
  type RehearsalOutcome,
  rehearsalOf,
} from "./rehearsal.ts";
export type { QueueStatus, WorkerStatus } from "./status.ts";
export { createWorker, type Worker } from "./worker.ts";
