export {
  type DrainedJob,
  drainJobs,
  type DrainJobsOptions,
  type DrainResult,
} from "./drain-jobs.ts";
export {
  type Definition,
  type EnqueuedJob,
  enqueuedJobs,
  type EnqueuedJobsOptions,
} from "./enqueued-jobs.ts";
export {
  expectEnqueued,
  type ExpectEnqueuedOptions,
  expectNotEnqueued,
  type PayloadPart,
} from "./expect-enqueued.ts";
export { runBatch, type RunBatchOptions } from "./run-batch.ts";
export { runHandler, type ReportedProgress, type RunHandlerOptions } from "./run-handler.ts";
export { waitForJob, type WaitForJobOptions } from "./wait-for-job.ts";
