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

/** A step of {@link relayFailpoints}. */
export type RelayFailpoint = (typeof relayFailpoints)[number];

/** Called at each step that is reached. */
export type RelayFailpointHook = (name: RelayFailpoint) => void;

/**
 * What tests replace: the random numbers, and what happens at the steps between which a relay can die.
 * Nothing here is promised.
 */
export interface RelayInternals {
  readonly failpoint?: RelayFailpointHook | undefined;
  readonly random?: (() => number) | undefined;
}
