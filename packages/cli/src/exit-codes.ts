/** What the `waybill` command ends with; documented in docs/reference/cli.md. */
export const exitCodes = {
  /** Done, and nothing is wrong. */
  ok: 0,
  /** It did not work: a server could not be reached, a job was not found. */
  failure: 1,
  /** The command line or the configuration is wrong; nothing was tried. */
  usage: 2,
  /** Some of several things were done; the rest is reported. */
  partial: 3,
  /** A check (`doctor`, `topology check`, `audit`) ran and found problems. */
  problems: 4,
  /** Ended by SIGINT before it was done. */
  interrupted: 130,
} as const;

/** One of {@link exitCodes}. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
