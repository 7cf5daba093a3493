/** The jobs of these tests; apart from `support.ts`, so that processes can import them. */

import { defineJob } from "@waybill/core";
import { z } from "zod";

/** The queue of all jobs here. */
export const queue = "work";

const retry = { maxAttempts: 5, initialDelayMs: 10, maxDelayMs: 10 } as const;
/** Longer than every time after which somebody looks for jobs of dead workers. */
const timeoutMs = 600_000;

/** A job that succeeds; it shows that the worker works, and that what came before it has been looked at. */
export const sentinel = defineJob({
  name: "sentinel",
  queue,
  payload: z.object({ n: z.int() }),
});

/** Waits until its process is told "go", then writes its effect; `deaf` does not listen to its signal. */
export const held = defineJob({
  name: "held",
  queue,
  payload: z.object({ deaf: z.boolean().default(false) }),
  retry,
  timeoutMs,
});

/** The same with a single attempt. */
export const heldOnce = defineJob({
  name: "held.once",
  queue,
  payload: held.payload,
  retry: { maxAttempts: 1 },
  timeoutMs,
});

/** Asks in its first attempt to come back after so many milliseconds. */
export const limited = defineJob({
  name: "limited",
  queue,
  payload: z.object({ pauseMs: z.int() }),
  retry,
});

/** Writes its effect, and blocks the event loop for so many milliseconds before it ends. */
export const greedy = defineJob({
  name: "greedy",
  queue,
  payload: z.object({ blockMs: z.int() }),
  retry,
});

/** Does nothing, in the two ways of handlers; with a time limit, so that each sets a timer. */
export const noop = defineJob({ name: "noop", queue, payload: z.object({}), timeoutMs });
export const noopInTransaction = defineJob({
  name: "noop.transaction",
  queue,
  payload: z.object({}),
  timeoutMs,
});

/** Writes one effect into the ledger. */
export async function writeEffect(
  tx: { query(text: string, values: unknown[]): Promise<unknown> },
  job: { readonly id: string; readonly attempt: number },
): Promise<void> {
  await tx.query("insert into effect values ($1, $2)", [job.id, job.attempt]);
}
