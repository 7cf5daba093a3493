/** A job that asks for an event of its end, and what tests of such jobs read. */

import { defineJob, defineTerminalEvent, type JobEnded, validateValue } from "@waybill/core";
import {
  createJobs,
  createOutbox,
  type EnqueueOptions,
  type Jobs,
  type Outbox,
} from "@waybill/postgres";
import type { PoolClient } from "pg";
import { expect } from "vitest";
import { z } from "zod";
import { eventually } from "../../support/index.ts";
import type { App } from "../../worker/support/start-app.ts";

export const ended = defineTerminalEvent("report.ended");
export const other = defineTerminalEvent("report.over");
export const report = defineJob({
  name: "report",
  queue: "work",
  payload: z.object({ n: z.int() }),
  result: z.object({ rows: z.int() }),
  retry: { maxAttempts: 2, initialDelayMs: 10, maxDelayMs: 10 },
  onTerminal: ended,
});
export const quiet = defineJob({ name: "quiet", queue: "work", payload: z.object({ n: z.int() }) });

export interface Desk {
  readonly outbox: Outbox<PoolClient>;
  readonly jobs: Jobs<PoolClient>;
  readonly enqueue: (options?: EnqueueOptions) => Promise<string>;
}

export function deskOf(app: App): Desk {
  const outbox = createOutbox({ database: app.dataLayer });
  return {
    outbox,
    jobs: createJobs({ database: app.dataLayer, actor: "ada" }),
    enqueue: async (options = {}) => {
      const { jobId } = await app.dataLayer.transaction((tx) =>
        outbox.enqueue(tx, report, { n: 1 }, options),
      );
      return jobId;
    },
  };
}

/** The events that tell the job's end, oldest first, as a subscription would read them. */
export async function endsOf(
  app: App,
  jobId: string,
  name: string = ended.name,
): Promise<JobEnded[]> {
  const rows = await app.database.rows<{ payload: string; type: string }>(
    "select type, payload from waybill.outbox where kind = 'event' and correlation_id = $1 order by seq",
    [jobId],
  );
  return Promise.all(
    rows.map(async ({ type, payload }) => {
      const read = await validateValue(ended.payload, JSON.parse(payload));
      if (read.issues !== undefined) throw new Error(JSON.stringify(read.issues));
      expect(type).toBe(name);
      return read.value;
    }),
  );
}

/** Waits for the job's end, sends copies of it, and gives the events that there are then. */
export async function settled(app: App, id: string, state: string): Promise<JobEnded[]> {
  await eventually(async () => expect(await app.inbox(id)).toMatchObject({ state }));
  for (const dispatch of [1, 2]) {
    await app.courier.dispatch({ id, type: "report", queue: "work", dispatch });
  }
  await eventually(async () => expect(await app.courier.depth("waybill.work")).toBe(0));
  return endsOf(app, id);
}

export const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;

export const told = (jobId: string, more: Partial<JobEnded>): JobEnded[] => [
  {
    jobId,
    jobName: "report",
    queue: "work",
    state: "succeeded",
    attempt: 1,
    enqueuedAt: iso,
    finishedAt: iso,
    result: null,
    failureClass: null,
    failureMessage: null,
    cancelledBy: null,
    cancelReason: null,
    ...more,
  },
];
