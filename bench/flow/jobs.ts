import { defineJob, type JobDefinition } from "@waybill/core";
import { z } from "zod";

const payload = z.object({
  n: z.number(),
  ms: z.number().optional(),
  /** Attempts that fail. */
  failures: z.number().optional(),
  /** When it was enqueued, by the monotonic clock, in microseconds. */
  at: z.number().optional(),
});

/** What a job of the measurements says. */
export type FlowPayload = z.infer<typeof payload>;

/** Job types of a queue where a measurement does not care. */
export const onlyType: readonly string[] = ["job"];

/** The job of a type on a queue. */
export type FlowJob = JobDefinition<string, typeof payload>;

/** Defines a job; a failed one is tried again at once, as often as it takes. */
export function flowJob(queue: string, type: string): FlowJob {
  return defineJob({
    name: `flow.${type}`,
    queue,
    payload,
    retry: { maxAttempts: 20, initialDelayMs: 10, maxDelayMs: 20, jitter: "none" },
  });
}
