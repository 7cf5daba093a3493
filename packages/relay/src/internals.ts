/**
 * What tests replace: the random numbers, and named points at which a process can be killed.
 * Nothing here is promised.
 */
export interface RelayInternals {
  /**
   * Called at `relay.afterPublish`, `relay.afterConfirm`, `relay.beforeSave`, `relay.afterSave`,
   * `relay.afterPark`, `relay.afterLeases`, `relay.beforeSwept`,
   * `relay.afterTakenForLost`, `relay.afterLostDispatched`.
   */
  readonly failpoint?: ((name: string) => void) | undefined;
  readonly random?: (() => number) | undefined;
  /** Milliseconds between the two looks by which the auditor proves a loss. */
  readonly settleMs?: number | undefined;
}
