/**
 * The smallest of the values that is not below `percent` of them (nearest rank).
 *
 * @throws RangeError where there are no values
 */
export function percentile(values: readonly number[], percent: number): number {
  const ordered = values.toSorted((a, b) => a - b);
  const value = ordered[Math.max(0, Math.ceil((percent / 100) * ordered.length) - 1)];
  if (value === undefined) throw new RangeError("There is no percentile of no values.");
  return value;
}
