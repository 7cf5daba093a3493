/**
 * The job's states and the only ways between them. The check constraint of the inbox holds the
 * same six words, and a test compares the two.
 */

/** The six states of a job. */
export const jobStates = [
  "queued",
  "running",
  "retry_waiting",
  "succeeded",
  "failed",
  "cancelled",
] as const;

/** One of {@link jobStates}. */
export type JobState = (typeof jobStates)[number];

/**
 * From each state the states that may follow. `failed` is left only by a recorded redrive, which
 * waits like a retry, or runs at once when an operator moved the message back by hand.
 */
export const transitions: Readonly<Record<JobState, readonly JobState[]>> = {
  queued: ["running", "cancelled", "failed"],
  running: ["succeeded", "retry_waiting", "failed", "cancelled"],
  retry_waiting: ["running", "cancelled"],
  succeeded: [],
  failed: ["retry_waiting", "running"],
  cancelled: [],
};

/** True for a state that ends the job. */
export function isTerminal(state: JobState): boolean {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

/** True where {@link transitions} allows the step. */
export function canTransition(from: JobState, to: JobState): boolean {
  return transitions[from].includes(to);
}
