/** Microseconds by the system's monotonic clock, which all processes of a machine share. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}
