/** Which partitions there should be, as a pure function of time and of those that exist. */

const day = 86_400_000;

/** A stretch of time: from `lower` up to, not including, `upper`. */
export interface Stretch {
  readonly lower: Date;
  readonly upper: Date;
}

/**
 * Length of a partition of the outbox: a day, or as many that the retention spans about three, since
 * every look at the outbox looks at each partition.
 */
export function outboxStepMs(retentionMs: number): number {
  return day * Math.max(1, Math.ceil(retentionMs / (3 * day)));
}

/** Length of a partition of the inbox: a week, or as many that the retention spans about three. */
export function inboxStepMs(retentionMs: number): number {
  return 7 * day * Math.max(1, Math.ceil(retentionMs / (21 * day)));
}

/** The stretch that an instant lies in. Weeks begin on Mondays, UTC. */
export function stretchAt(instantMs: number, stepMs: number): Stretch {
  // 1970-01-05 was a Monday.
  const origin = stepMs % (7 * day) === 0 ? 4 * day : 0;
  const lower = Math.floor((instantMs - origin) / stepMs) * stepMs + origin;
  return { lower: new Date(lower), upper: new Date(lower + stepMs) };
}

/** Parts of a stretch that no existing one covers; the steps may have changed with the options. */
export function uncovered(stretch: Stretch, existing: readonly Stretch[]): readonly Stretch[] {
  const gaps: Stretch[] = [];
  let from = stretch.lower.getTime();
  const end = stretch.upper.getTime();
  const sorted = existing.toSorted((a, b) => a.lower.getTime() - b.lower.getTime());
  for (const { lower, upper } of sorted) {
    if (upper.getTime() <= from || lower.getTime() >= end) continue;
    if (lower.getTime() > from) gaps.push({ lower: new Date(from), upper: lower });
    from = Math.max(from, upper.getTime());
  }
  if (from < end) gaps.push({ lower: new Date(from), upper: stretch.upper });
  return gaps;
}

/** Name of a partition: `outbox_20261130`; not at midnight: `outbox_20261130_1200`. */
export function partitionName(table: string, lower: Date): string {
  const text = lower.toISOString().replaceAll(/[-:]/g, "");
  const time = text.slice(9, 13);
  return `${table}_${text.slice(0, 8)}${time === "0000" ? "" : `_${time}`}`;
}
