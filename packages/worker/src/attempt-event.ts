import { channel } from "node:diagnostics_channel";
import type { Logger } from "@waybill/core";
import { currentJob } from "./current-job.ts";
import type { Settled } from "./settlements.ts";

/** What is published on the diagnostics channel `waybill:job:attempt` after each attempt. */
export interface AttemptEvent {
  readonly jobId: string;
  readonly jobName: string;
  readonly queue: string;
  readonly attempt: number;
  /** What the attempt made of the job. */
  readonly state: Settled;
  readonly failureClass: string | undefined;
  /** Time of the handler, in milliseconds; of a batch, with the time that it was waited for. */
  readonly durationMs: number;
}

const attemptChannel = channel("waybill:job:attempt");

/** Tells the application's listeners. What they throw is logged with the job, and costs nobody anything. */
export function publishAttempt(event: AttemptEvent, logger: Logger): void {
  if (!attemptChannel.hasSubscribers) return;
  const { jobId, jobName, queue, attempt } = event;
  const ended = {
    jobId,
    jobName,
    queue,
    attempt,
    logger,
    fail: () => undefined,
    ended: () => true,
  };
  // Node throws a listener's error a moment later, outside any promise; the context says whose it is, or
  // it would be taken for one that puts the whole process in doubt.
  currentJob.run(ended, () => attemptChannel.publish(event));
}
