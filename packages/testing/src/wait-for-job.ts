import { AssertionError } from "node:assert";
import { setTimeout as delay } from "node:timers/promises";
import { isTerminal, type JobState, WaybillError } from "@waybill/core";
import type { JobRecord, Jobs } from "@waybill/postgres";

/** Options of {@link waitForJob}. */
export interface WaitForJobOptions {
  /** How long it may take, in milliseconds. @default 15000 */
  readonly deadlineMs?: number | undefined;
  /** Queue or subscription, where one id is known in several. */
  readonly queue?: string | undefined;
}

/** Pause between two looks, in milliseconds. */
const pauseMs = 25;

function describe(job: JobRecord | undefined): string {
  if (job === undefined) return "no such job is known";
  const failure = job.failureMessage === null ? "" : `, last failure: ${job.failureMessage}`;
  const waiting = job.waitingFor === null ? "" : `, waiting for ${job.waitingFor}`;
  return `it is ${job.state} (attempt ${job.attempt}${waiting}${failure})`;
}

/**
 * Waits until a job is in a state; a job that is there already is found at the first look. For tests
 * with a running relay and worker.
 *
 * @returns the job
 * @throws AssertionError that tells the job's state and last failure, at the deadline, or at once
 *   when the job has ended in another state
 *
 * @example
 * const job = await waitForJob(jobs, jobId, "succeeded");
 */
export async function waitForJob<Tx>(
  jobs: Jobs<Tx>,
  jobId: string,
  state: JobState,
  options: WaitForJobOptions = {},
): Promise<JobRecord> {
  const { deadlineMs = 15_000, queue } = options;
  const until = performance.now() + deadlineMs;
  for (;;) {
    const job = await jobs.get(jobId, { queue }).catch((error: unknown) => {
      // Its transaction may not have committed yet.
      if (WaybillError.is(error) && error.code === "WAYBILL_JOB_NOT_FOUND") return undefined;
      throw error;
    });
    if (job?.state === state) return job;
    const over = job !== undefined && isTerminal(job.state);
    if (over || performance.now() >= until) {
      throw new AssertionError({
        message: `Expected job ${jobId} to be ${state}${over ? "" : ` within ${deadlineMs} ms`}: ${describe(job)}.`,
        actual: job?.state,
        expected: state,
        operator: "waitForJob",
        stackStartFn: waitForJob,
      });
    }
    await delay(pauseMs);
  }
}
