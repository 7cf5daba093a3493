/**
 * The event that tells a job's end, for jobs that ask for it: `onTerminal` of a definition or of one
 * enqueue. The database writes it in the transaction that ends the job (publish_job_end in
 * packages/postgres/sql/migrations/0006_long_jobs.sql), so that no way to end a job can forget it.
 */

import { z } from "zod";
import { defineEvent, type EventDefinition } from "./event.ts";
import { isTypeName } from "./names.ts";
import type { StandardSchema } from "./standard-schema.ts";

/** How a job has ended; the payload of a terminal event. Its times are ISO texts in UTC. */
export interface JobEnded {
  readonly jobId: string;
  readonly jobName: string;
  /** Queue of the job. */
  readonly queue: string;
  readonly state: "succeeded" | "failed" | "cancelled";
  /** Number of its last attempt; 0 where it ended before the first. */
  readonly attempt: number;
  /** Null where the message that brought the job did not say. */
  readonly enqueuedAt: string | null;
  readonly finishedAt: string;
  /** What the handler gave back; null without a result schema, and where the job has not succeeded. */
  readonly result: unknown;
  /** Of a failed job, as it was recorded; null for the others. */
  readonly failureClass: string | null;
  readonly failureMessage: string | null;
  /** Of a cancelled job: who cancelled it; `waybill` where it expired. Null for the others. */
  readonly cancelledBy: string | null;
  readonly cancelReason: string | null;
}

/** An event with {@link JobEnded} as payload. Made by {@link defineTerminalEvent}. */
export type TerminalEvent<Name extends string = string> = EventDefinition<
  Name,
  StandardSchema<JobEnded>
>;

// Not strict: a later version of the database may say more. The class is a text for that reason too.
const jobEnded: z.ZodType<JobEnded, JobEnded> = z.object({
  jobId: z.uuid(),
  jobName: z.string(),
  queue: z.string(),
  state: z.enum(["succeeded", "failed", "cancelled"]),
  attempt: z.int().min(0),
  enqueuedAt: z.iso.datetime().nullable(),
  finishedAt: z.iso.datetime(),
  result: z.unknown(),
  failureClass: z.string().nullable(),
  failureMessage: z.string().nullable(),
  cancelledBy: z.string().nullable(),
  cancelReason: z.string().nullable(),
});

/**
 * Defines an event that is published when a job ends, once for each end: as succeeded, failed or
 * cancelled. Several jobs may share one; subscriptions receive it like any other event.
 *
 * @throws NameError for a name outside the rules of names
 *
 * @example
 * const exportEnded = defineTerminalEvent("export.ended");
 * const exportOrders = defineJob({ name: "export", payload, onTerminal: exportEnded });
 */
export function defineTerminalEvent<const Name extends string>(name: Name): TerminalEvent<Name> {
  return defineEvent({ name, payload: jobEnded });
}

/** True for what can be published when a job ends: an event, by the name that it has. */
export const isTerminalEvent = (value: unknown): value is TerminalEvent =>
  typeof value === "object" && value !== null && "name" in value && isTypeName(value.name);
