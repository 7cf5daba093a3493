/**
 * PostgreSQL's pg_snapshot as text, "xmin:xmax:xip,xip,...": which transactions had ended when it
 * was taken. Everything below xmax is visible in it but the transactions of the list.
 */
export interface Snapshot {
  readonly xmax: bigint;
  /** Transactions below xmax that were in progress, ascending. */
  readonly inProgress: readonly bigint[];
}

/** Nothing is visible in it: the beginning. */
export const beginning = "1:1:";

/**
 * Reads a snapshot.
 *
 * @throws TypeError for any other text
 */
export function parseSnapshot(text: string): Snapshot {
  const match = /^\d+:(\d+):([\d,]*)$/.exec(text);
  if (match?.[1] === undefined) throw new TypeError(`not a snapshot: ${text.slice(0, 40)}`);
  const list = match[2] ?? "";
  return {
    xmax: BigInt(match[1]),
    inProgress: list === "" ? [] : list.split(",").map(BigInt),
  };
}

/** True if a transaction had ended when the snapshot was taken. */
export function isVisible(xid: bigint, snapshot: Snapshot): boolean {
  return xid < snapshot.xmax && !snapshot.inProgress.includes(xid);
}
