/** What {@link reconnectDelayMs} looks at. */
export interface ReconnectSituation {
  /** Failures in a row, flapping connections included. */
  readonly failures: number;
  /** How long there has been no connection, in milliseconds. */
  readonly downMs: number;
  /** Wrong password and the like: trying again at once cannot help and may lock the account. */
  readonly needsOperator: boolean;
  readonly random: () => number;
}

/**
 * Milliseconds until the next connection attempt: full jitter under 250 ms doubling up to 5 s in
 * the first minute and 30 s later; where an operator must act, the upper half of that cap.
 */
export function reconnectDelayMs(situation: ReconnectSituation): number {
  const cap = situation.downMs < 60_000 ? 5_000 : 30_000;
  if (situation.needsOperator) return Math.floor(cap / 2 + situation.random() * (cap / 2));
  const bound = Math.min(cap, 250 * 2 ** Math.min(situation.failures, 20));
  return Math.floor(situation.random() * bound);
}
