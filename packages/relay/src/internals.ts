/**
 * The steps between which a relay can die, in the order of a job's way. Tests make it throw, hang and
 * exit at each of them; `test/faults/crash-matrix` is generated from this list.
 */
export const relayFailpoints = [
  "relay.beforePublish",
  "relay.afterPublish",
  "relay.afterConfirm",
  "relay.afterPark",
  "relay.beforeSave",
  "relay.afterSave",
  "relay.afterRound",
  "relay.afterTimers",
  "relay.afterLeases",
  "relay.beforeSwept",
] as const;

/** Those that a relay reaches only where the broker has lost messages; `test/faults/auditor` kills it at each. */
export const auditorFailpoints = ["relay.afterTakenForLost", "relay.afterLostDispatched"] as const;

/** A step of {@link relayFailpoints} or {@link auditorFailpoints}. */
export type RelayFailpoint = (typeof relayFailpoints | typeof auditorFailpoints)[number];

/** Called at each step that is reached. */
export type RelayFailpointHook = (name: RelayFailpoint) => void;

/**
 * What tests replace: the random numbers, and what happens at the steps between which a relay can die.
 * Nothing here is promised.
 */
export interface RelayInternals {
  readonly failpoint?: RelayFailpointHook | undefined;
  readonly random?: (() => number) | undefined;
  /** Milliseconds between the two looks by which the auditor proves a loss. */
  readonly settleMs?: number | undefined;
}
