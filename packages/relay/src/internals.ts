/**
 * What tests replace: the random numbers, and named points at which a process can be killed.
 * Nothing here is promised.
 */
export interface RelayInternals {
  /**
   * Called at `relay.afterPublish`, `relay.afterConfirm`, `relay.beforeSave`, `relay.afterSave`,
   * `relay.afterPark`, `relay.afterLeases`, `relay.beforeSwept`.
   */
  readonly failpoint?: ((name: string) => void) | undefined;
  readonly random?: (() => number) | undefined;
}
